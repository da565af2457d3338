//! A packet capture in time order.

use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use std::{collections::BTreeMap, fs::File, io::BufWriter, path::Path, time::Duration};

/// A frame is known when its last bit has been handed to the transmitter, and a short one of another card may have begun
/// after it and be known before. The card takes up to 350 ns of work ahead, and 9 KB take 450 ns at the speed of its bus.
const WINDOW_PS: u64 = 5_000_000;

/// Nanosecond time stamps, card time.
pub struct Capture {
    out: PcapWriter<BufWriter<File>>,
    /// Frames that an earlier one may still precede, by start and order of arrival.
    held: BTreeMap<(u64, u64), Vec<u8>>,
    count: u64,
    failed: bool,
}

impl Capture {
    pub fn create(path: &Path) -> anyhow::Result<Capture> {
        let h = PcapHeader {
            ts_resolution: pcap_file::TsResolution::NanoSecond,
            endianness: pcap_file::Endianness::Little,
            ..Default::default()
        };
        Ok(Capture {
            out: PcapWriter::with_header(BufWriter::new(File::create(path)?), h)?,
            held: BTreeMap::new(),
            count: 0,
            failed: false,
        })
    }

    pub fn add(&mut self, start_ps: u64, data: &[u8]) {
        // A full disk has ended the capture, not the run.
        if self.failed {
            return;
        }
        self.held.insert((start_ps, self.count), data.to_vec());
        self.count += 1;
        let newest = self.held.last_key_value().map_or(0, |(k, _)| k.0);
        self.write(newest.saturating_sub(WINDOW_PS));
    }

    /// Writes what began before `ps`.
    fn write(&mut self, ps: u64) {
        while let Some(e) = self.held.first_entry().filter(|e| e.key().0 < ps) {
            let ((start, _), data) = e.remove_entry();
            let t = Duration::from_nanos(start / 1000);
            let r = self
                .out
                .write_packet(&PcapPacket::new(t, data.len() as u32, &data));
            if let Err(e) = r {
                eprintln!("metaroce: can't write the packet capture ({e}); the capture stops here, the run goes on");
                self.failed = true;
                self.held.clear();
            }
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.write(u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts (ns) and first bytes of the packets.
    fn packets(p: &Path) -> Vec<(u64, u8)> {
        let b = std::fs::read(p).unwrap();
        let word = |at: usize| u32::from_le_bytes(b[at..at + 4].try_into().unwrap()) as u64;
        let (mut at, mut v) = (24, vec![]);
        while at < b.len() {
            v.push((word(at) * 1_000_000_000 + word(at + 4), b[at + 16]));
            at += 16 + word(at + 8) as usize;
        }
        v
    }

    #[test]
    fn a_frame_that_is_known_late_stands_where_it_began() {
        let path = std::env::temp_dir().join(format!("metaroce-capture-{}", std::process::id()));
        let mut c = Capture::create(&path).unwrap();
        for (k, us) in [1u64, 3, 4, 2, 3, 20, 19, 1_500_000]
            .into_iter()
            .enumerate()
        {
            c.add(us * 1_000_000, &[k as u8; 60]);
        }
        drop(c);
        let want: Vec<(u64, u8)> = [
            (1, 0),
            (2, 3),
            (3, 1),
            (3, 4),
            (4, 2),
            (19, 6),
            (20, 5),
            (1_500_000, 7),
        ]
        .map(|(us, k)| (us * 1000, k))
        .to_vec();
        assert_eq!(packets(&path), want);
        std::fs::remove_file(&path).unwrap();
    }
}
