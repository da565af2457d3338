//! Reasons for which a received frame has no effect.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Why a frame was dropped without any effect but one counter.
        ///
        /// The discriminant is the counter's index; the list is shared by the codec, the model and
        /// the card.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum DropReason { $($(#[$doc])* $name,)* }

        impl DropReason {
            /// Every reason, in the order of its index.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$name,)*];

            /// Counter name, `snake_case`.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// Shorter than an Ethernet header (and its VLAN tag).
    EthTruncated = "eth_truncated",
    /// EtherType is neither IPv4 nor IPv6: not for this engine.
    NotIp = "not_ip",
    /// IP header cut off, wrong version, header length or reserved flag.
    IpMalformed = "ip_malformed",
    /// IP length field smaller than the header or beyond the frame.
    IpLength = "ip_length",
    /// IPv4 header checksum wrong.
    IpChecksum = "ip_checksum",
    /// A fragment; RoCEv2 never fragments.
    IpFragment = "ip_fragment",
    /// IP protocol is not UDP (IPv6: next header, extension headers are not followed).
    NotUdp = "not_udp",
    /// UDP header cut off, or its length is not that of the IP payload.
    UdpLength = "udp_length",
    /// UDP destination port is not 4791.
    NotRoce = "not_roce",
    /// Shorter than BTH + ICRC, or than `headers(opcode) + pad + 4`, or trailing bytes after an
    /// opcode that has no payload.
    BadLength = "bad_length",
    /// Opcode without an entry in the table.
    BadOpcode = "bad_opcode",
    /// Transport version is not 0.
    BadTver = "bad_tver",
    /// PadCnt does not bring the payload to a multiple of four bytes.
    BadPad = "bad_pad",
    /// ICRC wrong.
    BadIcrc = "bad_icrc",
    /// No such QP.
    BadQpn = "bad_qpn",
    /// The QP's state does not receive this packet.
    QpState = "qp_state",
    /// Opcode of another service type than the QP's.
    WrongService = "wrong_service",
    /// Source address is not that of the connection.
    WrongSource = "wrong_source",
    /// P_Key does not match.
    BadPkey = "bad_pkey",
    /// Q_Key does not match (UD).
    BadQkey = "bad_qkey",
    /// UD payload longer than the MTU or the receive buffer.
    UdLength = "ud_length",
    /// UD or UC with no receive WQE.
    NoRecvWqe = "no_recv_wqe",
    /// Request after a gap while a NAK is outstanding, or the packet that causes the NAK.
    OutOfSequence = "out_of_sequence",
    /// Duplicate request; answered, but without effect.
    Duplicate = "duplicate",
    /// Duplicate READ that matches no remembered READ; not answered.
    DuplicateUnmatched = "duplicate_unmatched",
    /// Response for nothing outstanding.
    StaleResponse = "stale_response",
    /// Response after a hole in the responses.
    ResponseGap = "response_gap",
    /// Request refused with an RNR NAK.
    Rnr = "rnr",
}
