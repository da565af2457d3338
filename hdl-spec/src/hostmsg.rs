//! `HostPortMsg`: one transaction of the host port, as carried by the simulator's SEQPACKET socket
//! (one message per packet, at most [`MAX_MSG`] bytes) and by tunnelled host ports.
//!
//! A message is the 40-byte [`Head`] followed by `len` bytes of data where the kind says so.

/// Kind of message as the generated page lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KindInfo {
    pub kind: Kind,
    pub name: &'static str,
    /// "C" = client (host), "S" = card side.
    pub way: &'static str,
    pub doc: &'static str,
}

macro_rules! kinds {
    ($($id:ident = $v:literal $way:literal $doc:literal;)*) => {
        /// Kinds of message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Kind {
            $(#[doc = concat!($way, ": ", $doc)] $id = $v),*
        }
        pub const KINDS: &[KindInfo] =
            &[$(KindInfo { kind: Kind::$id, name: stringify!($id), way: $way, doc: $doc }),*];
    };
}

kinds! {
    Hello = 1 "C->S" "`addr` = arena base in the client's address space, data = program name, `tag` = ABI major << 16 | minor, `arg` = card index. The arena memfd is attached (SCM_RIGHTS)";
    HelloAck = 2 "S->C" "`pasid` = the client's PASID; or `status` = errno, text in the data";
    Read = 3 "S->C" "Read `len` bytes at `addr`; answered by ReadDone with the same `tag`";
    ReadDone = 4 "C->S" "Data; or `status` = EFAULT without data";
    Write = 5 "S->C" "Write the data at `addr`; answered by WriteDone with the same `tag`";
    WriteDone = 6 "C->S" "Written; or `status` = EFAULT";
    MmioRead = 7 "C->S" "32-bit register read at BAR offset `addr`; answered by MmioReadDone with the same `tag`";
    MmioReadDone = 8 "S->C" "Value in `arg`";
    Wake = 9 "C->S" "The doorbell ring has entries and the simulator had said that it sleeps";
    Interrupt = 10 "S->C" "The event queue has entries";
    Neighbor = 11 "C->S" "Look up the MAC of a GID (16 data bytes); answered by NeighborDone with the same `tag`";
    NeighborDone = 12 "S->C" "MAC in `arg` (first wire byte lowest), or `status` = errno";
    Goodbye = 13 "S->C" "The card is going away; data = reason";
}

impl Kind {
    pub fn from_u8(v: u8) -> Option<Kind> {
        KINDS.iter().map(|k| k.kind).find(|k| *k as u8 == v)
    }
}

/// Fixed head of a message, little-endian on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub kind: Kind,
    pub status: u16,
    pub tag: u32,
    pub pasid: u32,
    pub len: u32,
    pub addr: u64,
    pub arg: u64,
}

pub const MAGIC: u8 = 0x4D;
pub const HEAD_BYTES: usize = 40;
pub const MAX_DATA: usize = 4096;
pub const MAX_MSG: usize = HEAD_BYTES + MAX_DATA;

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MsgError {
    TooShort,
    BadMagic,
    BadKind,
    BadLength,
}

impl Head {
    pub fn new(kind: Kind) -> Head {
        Head {
            kind,
            status: 0,
            tag: 0,
            pasid: 0,
            len: 0,
            addr: 0,
            arg: 0,
        }
    }
    /// True for kinds that carry `len` bytes of data.
    pub fn has_data(&self) -> bool {
        use Kind::*;
        matches!(self.kind, Hello | HelloAck | Write | Neighbor | Goodbye)
            || (self.kind == ReadDone && self.status == 0)
    }
    pub fn emit(&self, b: &mut [u8; HEAD_BYTES]) {
        b[0] = MAGIC;
        b[1] = self.kind as u8;
        b[2..4].copy_from_slice(&self.status.to_le_bytes());
        b[4..8].copy_from_slice(&self.tag.to_le_bytes());
        b[8..12].copy_from_slice(&self.pasid.to_le_bytes());
        b[12..16].copy_from_slice(&self.len.to_le_bytes());
        b[16..24].copy_from_slice(&self.addr.to_le_bytes());
        b[24..32].copy_from_slice(&self.arg.to_le_bytes());
        b[32..40].fill(0);
    }
    /// Parses a whole packet; the data is `&b[HEAD_BYTES..]`.
    pub fn parse(b: &[u8]) -> Result<Head, MsgError> {
        if b.len() < HEAD_BYTES {
            return Err(MsgError::TooShort);
        }
        if b[0] != MAGIC {
            return Err(MsgError::BadMagic);
        }
        let kind = Kind::from_u8(b[1]).ok_or(MsgError::BadKind)?;
        let u32at = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        let u64at = |i: usize| u32at(i) as u64 | (u32at(i + 4) as u64) << 32;
        let h = Head {
            kind,
            status: u16::from_le_bytes([b[2], b[3]]),
            tag: u32at(4),
            pasid: u32at(8),
            len: u32at(12),
            addr: u64at(16),
            arg: u64at(24),
        };
        let data = if h.has_data() { h.len as usize } else { 0 };
        if b.len() != HEAD_BYTES + data || data > MAX_DATA {
            return Err(MsgError::BadLength);
        }
        Ok(h)
    }
}

/// Shared arena (memfd made by the client, mapped by both). Rings, command blocks and page lists lie
/// in it; a bus address inside [arena base, + size) is served from it without asking the client.
pub mod arena {
    pub const MAGIC: u64 = 0x4152_4543_4F52_4D01;
    /// Sparse size of the memfd.
    pub const SIZE: u64 = 1 << 30;
    pub const DB_ENTRIES: u64 = 1024;
    pub const DB_ENTRY_BYTES: u64 = 128;
    /// Offset of a 64-byte doorbell's data in its entry.
    pub const DB_DATA: u64 = 64;

    /// A part of the arena.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct Part {
        pub name: &'static str,
        pub offset: u64,
        pub doc: &'static str,
    }
    macro_rules! parts {
        ($($id:ident = $off:expr, $doc:literal;)*) => {
            $(#[doc = $doc] pub const $id: u64 = $off;)*
            pub const TABLE: &[Part] = &[$(Part { name: stringify!($id), offset: $off, doc: $doc }),*];
        };
    }
    parts! {
        HEADER = 0, "u64 magic, u64 size, u64 base (client virtual address)";
        SLEEPING = 64, "u32: 1 while the simulator sleeps. A client that sees 1 after publishing a doorbell clears it (compare-exchange) and sends Wake";
        DEAD = 128, "u32: 1 when the card is dead; set by the simulator or by the client's own agent";
        DB_HEAD = 192, "u64 enqueue position (clients, by compare-exchange)";
        DB_TAIL = 256, "u64 dequeue position (simulator)";
        CARD_TIME = 320, "u64 card time in ns without the silence in which the cards waited for programs (simulator); what `--card-time` shows to programs";
        DB_RING = 4096, "Doorbell ring, a bounded multi-producer queue. Entry `p mod N` is free for position `p` when its `seq` equals `p`; the producer writes the value and then `seq = p + 1`; the consumer takes it and writes `seq = p + N`. Entries: u64 seq, u64 BAR offset, u64 bytes (8 or 64), u64 value or first 8 bytes, and 64 bytes of data from offset 64";
        HEAP = DB_RING + DB_ENTRIES * DB_ENTRY_BYTES, "First byte for rings and the like";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn head_round_trip_and_refusals() {
        let h = Head {
            kind: Kind::Write,
            status: 3,
            tag: 7,
            pasid: 9,
            len: 5,
            addr: 0x1122_3344_5566_7788,
            arg: 42,
        };
        let mut b = [0u8; HEAD_BYTES];
        h.emit(&mut b);
        let mut m = b.to_vec();
        m.extend_from_slice(b"hello");
        assert_eq!(Head::parse(&m), Ok(h));
        assert_eq!(Head::parse(&m[..44]), Err(MsgError::BadLength));
        assert_eq!(Head::parse(&m[..10]), Err(MsgError::TooShort));
        m[1] = 200;
        assert_eq!(Head::parse(&m), Err(MsgError::BadKind));
    }
}
