//! What a card's counters must be, by what was on its wire.

use metaroce_protocol::{DropReason, NakCode, Syndrome};

#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    pub tx_frames: u64,
    tx_bytes: u64,
    tx_acks: u64,
    tx_naks: u64,
    tx_rnr_naks: u64,
    tx_retransmits: u64,
    rx_frames: u64,
    rx_bytes: u64,
    rx_drop_malformed: u64,
    rx_drop_icrc: u64,
    rx_drop_opcode: u64,
    rx_drop_qp: u64,
    rx_drop_duplicate: u64,
    rx_drop_sequence: u64,
    rx_drop_response: u64,
    rx_rnr_naks: u64,
    rx_seq_naks: u64,
    rx_fatal_naks: u64,
}

impl Counts {
    pub fn frame(&mut self, sent: bool, len: usize) {
        if sent {
            self.tx_frames += 1;
            self.tx_bytes += len as u64;
        } else {
            self.rx_frames += 1;
            self.rx_bytes += len as u64;
        }
    }

    /// The codec refuses a frame that was taken.
    pub fn refused(&mut self, r: DropReason) {
        match r {
            DropReason::BadIcrc => self.rx_drop_icrc += 1,
            DropReason::BadOpcode => self.rx_drop_opcode += 1,
            _ => self.rx_drop_malformed += 1,
        }
    }

    /// `answer`: of an acknowledgement.
    pub fn sent(&mut self, answer: Option<Syndrome>, again: bool) {
        self.tx_retransmits += again as u64;
        match answer {
            Some(Syndrome::Ack { .. }) => self.tx_acks += 1,
            Some(Syndrome::Rnr { .. }) => self.tx_rnr_naks += 1,
            Some(_) => self.tx_naks += 1,
            None => {}
        }
    }

    pub fn taken(&mut self, request: bool, answer: Option<Syndrome>, drop: Option<DropReason>) {
        match drop {
            Some(DropReason::BadQkey | DropReason::QpState) => self.rx_drop_qp += 1,
            Some(DropReason::Duplicate | DropReason::DuplicateUnmatched) => {
                self.rx_drop_duplicate += 1
            }
            // Nothing was dropped without a word.
            Some(DropReason::Rnr) => {}
            Some(_) if request => self.rx_drop_sequence += 1,
            Some(_) => self.rx_drop_response += 1,
            None => match answer {
                Some(Syndrome::Rnr { .. }) => self.rx_rnr_naks += 1,
                Some(Syndrome::Nak(NakCode::PsnSequence)) => self.rx_seq_naks += 1,
                Some(Syndrome::Nak(_)) => self.rx_fatal_naks += 1,
                _ => {}
            },
        }
    }

    pub fn compare(&self, counters: &[(&str, u64)]) -> Result<(), String> {
        let want = [
            ("tx_frames", self.tx_frames),
            ("tx_bytes", self.tx_bytes),
            ("tx_acks", self.tx_acks),
            ("tx_naks", self.tx_naks),
            ("tx_rnr_naks", self.tx_rnr_naks),
            ("tx_retransmits", self.tx_retransmits),
            ("rx_frames", self.rx_frames),
            ("rx_bytes", self.rx_bytes),
            ("rx_drop_malformed", self.rx_drop_malformed),
            ("rx_drop_icrc", self.rx_drop_icrc),
            ("rx_drop_opcode", self.rx_drop_opcode),
            ("rx_drop_qp", self.rx_drop_qp),
            ("rx_drop_full", 0),
            ("rx_drop_duplicate", self.rx_drop_duplicate),
            ("rx_drop_sequence", self.rx_drop_sequence),
            ("rx_drop_response", self.rx_drop_response),
            ("rx_rnr_naks", self.rx_rnr_naks),
            ("rx_seq_naks", self.rx_seq_naks),
            ("rx_fatal_naks", self.rx_fatal_naks),
        ];
        let wrong = want.iter().filter_map(|(name, v)| {
            let (_, got) = counters.iter().find(|c| c.0 == *name).expect("counter");
            (got != v).then(|| format!("{name} is {got}, the wire says {v}"))
        });
        let wrong: Vec<String> = wrong.collect();
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(wrong.join("; ")),
        }
    }
}
