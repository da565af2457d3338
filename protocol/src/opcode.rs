//! The opcode table (wire facts §4): total over all 256 values.

/// Transport service: the high three bits of the opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection, 0x00.
    Rc,
    /// Unreliable connection, 0x20.
    Uc,
    /// Unreliable datagram, 0x60.
    Ud,
    /// Congestion notification, 0x80.
    Cnp,
}

/// What the low five bits ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// SEND, with or without immediate or invalidate.
    Send,
    /// RDMA WRITE, with or without immediate.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// ACK, NAK or RNR NAK.
    Ack,
    /// Acknowledge of an atomic, with the original value.
    AtomicAck,
    /// Compare and swap.
    CmpSwap,
    /// Fetch and add.
    FetchAdd,
    /// FLUSH (memory placement extension).
    Flush,
    /// ATOMIC WRITE of 8 bytes (memory placement extension).
    AtomicWrite,
    /// Congestion notification packet.
    Cnp,
}

/// Place of the packet in its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl Place {
    /// Begins a message.
    pub const fn starts(self) -> bool {
        matches!(self, Place::First | Place::Only)
    }
    /// Ends a message.
    pub const fn ends(self) -> bool {
        matches!(self, Place::Last | Place::Only)
    }
    /// Place of packet `index` of `count`.
    pub const fn of(index: u32, count: u32) -> Place {
        match (index == 0, index + 1 >= count) {
            (true, true) => Place::Only,
            (true, false) => Place::First,
            (false, true) => Place::Last,
            (false, false) => Place::Middle,
        }
    }
}

/// Rule for the payload, checked by [`crate::roce::check_payload`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// No payload; a packet with some is malformed.
    None,
    /// Exactly this many bytes.
    Exact(u8),
    /// Exactly the MTU (First and Middle).
    Full,
    /// 1..=MTU (Last).
    Last,
    /// 0..=MTU (Only).
    Only,
}

/// Set of extension headers, in wire order from bit 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtSet(pub u8);

impl ExtSet {
    /// No extension header.
    pub const NONE: ExtSet = ExtSet(0);
    /// Datagram header, 8 bytes.
    pub const DETH: ExtSet = ExtSet(1);
    /// FLUSH header, 4 bytes.
    pub const FETH: ExtSet = ExtSet(2);
    /// RDMA header, 16 bytes.
    pub const RETH: ExtSet = ExtSet(4);
    /// Atomic request header, 28 bytes.
    pub const ATOMIC: ExtSet = ExtSet(8);
    /// ACK header, 4 bytes.
    pub const AETH: ExtSet = ExtSet(16);
    /// Atomic response header, 8 bytes.
    pub const ATOMIC_ACK: ExtSet = ExtSet(32);
    /// Immediate, 4 bytes.
    pub const IMM: ExtSet = ExtSet(64);
    /// Invalidate, 4 bytes.
    pub const IETH: ExtSet = ExtSet(128);

    /// Bytes of each header, by bit number.
    pub const BYTES: [usize; 8] = [8, 4, 16, 28, 4, 8, 4, 4];

    /// Union.
    #[must_use]
    pub const fn with(self, o: ExtSet) -> ExtSet {
        ExtSet(self.0 | o.0)
    }
    /// All bits of `o` are in `self`.
    pub const fn has(self, o: ExtSet) -> bool {
        self.0 & o.0 == o.0
    }
    /// Bytes of all headers of the set.
    pub const fn len(self) -> usize {
        let mut n = 0;
        let mut i = 0;
        while i < 8 {
            if self.0 >> i & 1 != 0 {
                n += Self::BYTES[i];
            }
            i += 1;
        }
        n
    }
    /// No header at all.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
    /// Offset of header `one` (a single bit) behind the BTH, if it is in the set.
    pub const fn offset(self, one: ExtSet) -> Option<usize> {
        if self.has(one) && one.0 != 0 {
            Some(ExtSet(self.0 & (one.0 - 1)).len())
        } else {
            None
        }
    }
}

/// One row of the opcode table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// Opcode byte.
    pub opcode: u8,
    /// Service type.
    pub service: Service,
    /// Operation.
    pub class: Class,
    /// Place in the message.
    pub place: Place,
    /// Extension headers.
    pub ext: ExtSet,
    /// Payload rule.
    pub payload: PayloadRule,
}

impl OpcodeInfo {
    /// BTH and extension headers in bytes.
    pub const fn header_len(&self) -> usize {
        crate::roce::BTH_LEN + self.ext.len()
    }
    /// Goes to the responder (CNP is neither request nor response).
    pub const fn is_request(&self) -> bool {
        !self.is_response() && !matches!(self.class, Class::Cnp)
    }
    /// Goes to the requester.
    pub const fn is_response(&self) -> bool {
        matches!(
            self.class,
            Class::ReadResponse | Class::Ack | Class::AtomicAck
        )
    }
    /// Carries an immediate.
    pub const fn has_imm(&self) -> bool {
        self.ext.has(ExtSet::IMM)
    }
    /// Takes a receive WQE when it begins (SEND) or ends (WRITE with immediate).
    pub const fn consumes_recv(&self) -> bool {
        match self.class {
            Class::Send => self.place.starts(),
            Class::Write => self.has_imm(),
            _ => false,
        }
    }
}

/// Opcode byte. Any value may be held; [`Opcode::info`] says whether it means something here.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Opcode(pub u8);

macro_rules! opcodes {
    ($($name:ident = $v:literal, $text:literal;)*) => {
        impl Opcode {
            $(#[doc = $text] pub const $name: Opcode = Opcode($v);)*

            /// Every opcode of the table, ascending within its service.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// Name in the manner of the specification, `"?"` for an unknown opcode.
            pub const fn name(self) -> &'static str {
                match self.0 { $($v => $text,)* _ => "?" }
            }
        }
    };
}

opcodes! {
    RC_SEND_FIRST = 0x00, "RC SEND First";
    RC_SEND_MIDDLE = 0x01, "RC SEND Middle";
    RC_SEND_LAST = 0x02, "RC SEND Last";
    RC_SEND_LAST_IMM = 0x03, "RC SEND Last+Imm";
    RC_SEND_ONLY = 0x04, "RC SEND Only";
    RC_SEND_ONLY_IMM = 0x05, "RC SEND Only+Imm";
    RC_WRITE_FIRST = 0x06, "RC WRITE First";
    RC_WRITE_MIDDLE = 0x07, "RC WRITE Middle";
    RC_WRITE_LAST = 0x08, "RC WRITE Last";
    RC_WRITE_LAST_IMM = 0x09, "RC WRITE Last+Imm";
    RC_WRITE_ONLY = 0x0a, "RC WRITE Only";
    RC_WRITE_ONLY_IMM = 0x0b, "RC WRITE Only+Imm";
    RC_READ_REQUEST = 0x0c, "RC READ Request";
    RC_READ_RESP_FIRST = 0x0d, "RC READ Response First";
    RC_READ_RESP_MIDDLE = 0x0e, "RC READ Response Middle";
    RC_READ_RESP_LAST = 0x0f, "RC READ Response Last";
    RC_READ_RESP_ONLY = 0x10, "RC READ Response Only";
    RC_ACK = 0x11, "RC ACK";
    RC_ATOMIC_ACK = 0x12, "RC ATOMIC ACK";
    RC_CMP_SWAP = 0x13, "RC CMP_SWAP";
    RC_FETCH_ADD = 0x14, "RC FETCH_ADD";
    RC_SEND_LAST_INV = 0x16, "RC SEND Last+Inv";
    RC_SEND_ONLY_INV = 0x17, "RC SEND Only+Inv";
    RC_FLUSH = 0x1c, "RC FLUSH";
    RC_ATOMIC_WRITE = 0x1d, "RC ATOMIC WRITE";
    UC_SEND_FIRST = 0x20, "UC SEND First";
    UC_SEND_MIDDLE = 0x21, "UC SEND Middle";
    UC_SEND_LAST = 0x22, "UC SEND Last";
    UC_SEND_LAST_IMM = 0x23, "UC SEND Last+Imm";
    UC_SEND_ONLY = 0x24, "UC SEND Only";
    UC_SEND_ONLY_IMM = 0x25, "UC SEND Only+Imm";
    UC_WRITE_FIRST = 0x26, "UC WRITE First";
    UC_WRITE_MIDDLE = 0x27, "UC WRITE Middle";
    UC_WRITE_LAST = 0x28, "UC WRITE Last";
    UC_WRITE_LAST_IMM = 0x29, "UC WRITE Last+Imm";
    UC_WRITE_ONLY = 0x2a, "UC WRITE Only";
    UC_WRITE_ONLY_IMM = 0x2b, "UC WRITE Only+Imm";
    UD_SEND_ONLY = 0x64, "UD SEND Only";
    UD_SEND_ONLY_IMM = 0x65, "UD SEND Only+Imm";
    CNP = 0x81, "CNP";
}

const fn row(opcode: u8) -> Option<OpcodeInfo> {
    let op5 = opcode & 0x1f;
    let service = match (opcode >> 5, op5) {
        (0, _) => Service::Rc,
        (1, 0x00..=0x0b) => Service::Uc,
        (3, 0x04 | 0x05) => Service::Ud,
        (4, 0x01) => {
            return Some(OpcodeInfo {
                opcode,
                service: Service::Cnp,
                class: Class::Cnp,
                place: Place::Only,
                ext: ExtSet::NONE,
                payload: PayloadRule::Exact(16),
            })
        }
        _ => return None,
    };
    let class = match op5 {
        0x00..=0x05 | 0x16 | 0x17 => Class::Send,
        0x06..=0x0b => Class::Write,
        0x0c => Class::ReadRequest,
        0x0d..=0x10 => Class::ReadResponse,
        0x11 => Class::Ack,
        0x12 => Class::AtomicAck,
        0x13 => Class::CmpSwap,
        0x14 => Class::FetchAdd,
        0x1c => Class::Flush,
        0x1d => Class::AtomicWrite,
        _ => return None,
    };
    let place = match op5 {
        0x00 | 0x06 | 0x0d => Place::First,
        0x01 | 0x07 | 0x0e => Place::Middle,
        0x02 | 0x03 | 0x08 | 0x09 | 0x0f | 0x16 => Place::Last,
        _ => Place::Only,
    };
    let mut ext = match op5 {
        0x06 | 0x0a | 0x0b | 0x0c | 0x1d => ExtSet::RETH,
        0x1c => ExtSet::RETH.with(ExtSet::FETH),
        0x0d | 0x0f | 0x10 | 0x11 => ExtSet::AETH,
        0x12 => ExtSet::AETH.with(ExtSet::ATOMIC_ACK),
        0x13 | 0x14 => ExtSet::ATOMIC,
        0x16 | 0x17 => ExtSet::IETH,
        _ => ExtSet::NONE,
    };
    if matches!(op5, 0x03 | 0x05 | 0x09 | 0x0b) {
        ext = ext.with(ExtSet::IMM);
    }
    if matches!(service, Service::Ud) {
        ext = ext.with(ExtSet::DETH);
    }
    let payload = match (class, place) {
        (Class::Send | Class::Write | Class::ReadResponse, Place::First | Place::Middle) => {
            PayloadRule::Full
        }
        (Class::Send | Class::Write | Class::ReadResponse, Place::Last) => PayloadRule::Last,
        (Class::Send | Class::Write | Class::ReadResponse, Place::Only) => PayloadRule::Only,
        (Class::AtomicWrite, _) => PayloadRule::Exact(8),
        _ => PayloadRule::None,
    };
    Some(OpcodeInfo {
        opcode,
        service,
        class,
        place,
        ext,
        payload,
    })
}

/// The table: `None` means silent drop before any length arithmetic.
pub static TABLE: [Option<OpcodeInfo>; 256] = {
    let mut t = [None; 256];
    let mut i = 0;
    while i < 256 {
        t[i] = row(i as u8);
        i += 1;
    }
    t
};

impl Opcode {
    /// Row of the table, total over all values.
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        TABLE[self.0 as usize].as_ref()
    }
    /// Opcode of an RC or UC SEND.
    pub const fn send(service: Service, place: Place, imm: bool) -> Opcode {
        let op5 = match (place, imm) {
            (Place::First, _) => 0,
            (Place::Middle, _) => 1,
            (Place::Last, false) => 2,
            (Place::Last, true) => 3,
            (Place::Only, false) => 4,
            (Place::Only, true) => 5,
        };
        Opcode(service.bits() | op5)
    }
    /// Opcode of an RC SEND with invalidate: what ends the message says it.
    pub const fn send_inv(place: Place) -> Opcode {
        match place {
            Place::Last => Opcode::RC_SEND_LAST_INV,
            Place::Only => Opcode::RC_SEND_ONLY_INV,
            _ => Self::send(Service::Rc, place, false),
        }
    }
    /// Opcode of an RC or UC WRITE.
    pub const fn write(service: Service, place: Place, imm: bool) -> Opcode {
        Opcode(Self::send(service, place, imm).0 + 6)
    }
    /// Opcode of a READ response.
    pub const fn read_response(place: Place) -> Opcode {
        match place {
            Place::First => Opcode::RC_READ_RESP_FIRST,
            Place::Middle => Opcode::RC_READ_RESP_MIDDLE,
            Place::Last => Opcode::RC_READ_RESP_LAST,
            Place::Only => Opcode::RC_READ_RESP_ONLY,
        }
    }
}

impl Service {
    /// The opcode bits of the service.
    pub const fn bits(self) -> u8 {
        match self {
            Service::Rc => 0x00,
            Service::Uc => 0x20,
            Service::Ud => 0x60,
            Service::Cnp => 0x80,
        }
    }
}

impl core::fmt::Debug for Opcode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} (0x{:02x})", self.name(), self.0)
    }
}
