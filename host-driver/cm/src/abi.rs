//! The ABI of `/dev/infiniband/rdma_cm`, version 4 (`rdma/rdma_user_cm.h`, `rdma/ib_user_verbs.h`, `rdma/ib_user_sa.h`):
//! offsets and sizes in bytes. All integers are the host's unless they are said to be the network's (`be`).
use crate::Errno;

/// Commands: `ucma_cmd_hdr.cmd`.
pub mod op {
    pub const CREATE_ID: u32 = 0;
    pub const DESTROY_ID: u32 = 1;
    pub const BIND_IP: u32 = 2;
    pub const RESOLVE_IP: u32 = 3;
    pub const RESOLVE_ROUTE: u32 = 4;
    pub const QUERY_ROUTE: u32 = 5;
    pub const CONNECT: u32 = 6;
    pub const LISTEN: u32 = 7;
    pub const ACCEPT: u32 = 8;
    pub const REJECT: u32 = 9;
    pub const DISCONNECT: u32 = 10;
    pub const INIT_QP_ATTR: u32 = 11;
    pub const GET_EVENT: u32 = 12;
    pub const SET_OPTION: u32 = 14;
    pub const NOTIFY: u32 = 15;
    pub const MIGRATE_ID: u32 = 18;
    pub const QUERY: u32 = 19;
    pub const BIND: u32 = 20;
    pub const RESOLVE_ADDR: u32 = 21;
}

/// `enum rdma_cm_event_type`.
pub mod event {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ADDR_ERROR: u32 = 1;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
}

/// `enum rdma_ucm_port_space`.
pub mod ps {
    pub const IB: u16 = 0x013F;
    pub const TCP: u16 = 0x0106;
    pub const UDP: u16 = 0x0111;
}

/// Why a request was rejected: reasons of REJ and statuses of SIDR_REP (IBTA vol. 1, 12.6.7.2 and 12.11.2).
pub mod reason {
    pub const NO_LISTENER: i32 = 8;
    pub const CONSUMER: i32 = 28;
    pub const VENDOR_OPTION: i32 = 35;
    pub const SIDR_UNSUPPORTED: i32 = 1;
    pub const SIDR_REJECTED: i32 = 2;
}

/// Private data: how much of it a program may give, and how much the other one gets (zeros behind it). The messages have
/// room for so much: REQ 92 and SIDR_REQ 216, less 36 of the IP addressing annex (A11); REP 196, REJ 148, SIDR_REP 136.
pub mod private {
    pub const REQ: usize = 56;
    pub const REP: usize = 196;
    pub const REJ: usize = 148;
    pub const SIDR_REQ: usize = 180;
    pub const SIDR_REP: usize = 136;
}

/// `enum ibv_qp_attr_mask`.
pub use metaroce::abi::attr as mask;

/// `struct ib_uverbs_qp_attr`.
pub mod qp_attr {
    pub const SIZE: usize = 144;
    pub const MASK: usize = 0;
    pub const STATE: usize = 4;
    pub const PATH_MTU: usize = 12;
    pub const QKEY: usize = 20;
    pub const RQ_PSN: usize = 24;
    pub const SQ_PSN: usize = 28;
    pub const DEST_QPN: usize = 32;
    pub const ACCESS: usize = 36;
    pub const AH: usize = 40;
    pub const MAX_RD: usize = 130;
    pub const MAX_DEST_RD: usize = 131;
    pub const MIN_RNR: usize = 132;
    pub const PORT: usize = 133;
    pub const TIMEOUT: usize = 134;
    pub const RETRY: usize = 135;
    pub const RNR_RETRY: usize = 136;
}

/// `struct ib_uverbs_ah_attr`: GID, then flow label, index of the source GID, hop limit, traffic class; `is_global` and
/// the port at the end.
pub const AH_BYTES: usize = 32;

/// `struct rdma_ucm_query_route_resp`.
pub mod route {
    pub const SIZE: usize = 208;
    pub const PATH: usize = 8;
    pub const PATH_BYTES: usize = 64;
    pub const SRC: usize = 136;
    pub const DST: usize = 164;
    pub const PATHS: usize = 192;
    pub const PORT: usize = 196;
    pub const DEVICE: usize = 200;
}

/// `struct rdma_ucm_query_addr_resp`.
pub mod addrs {
    pub const SIZE: usize = 280;
    pub const PORT: usize = 8;
    pub const PKEY: usize = 10;
    pub const SRC_SIZE: usize = 12;
    pub const DST_SIZE: usize = 14;
    pub const SRC: usize = 16;
    pub const DST: usize = 144;
    pub const DEVICE: usize = 272;
}

/// `struct rdma_ucm_query_path_resp` with one `struct ib_path_rec_data`.
pub mod path {
    pub const HEAD: usize = 8;
    pub const RECORD: usize = 72;
}

/// `struct rdma_ucm_event_resp`: the parameters are those of a connection or of a datagram service.
pub mod event_resp {
    pub const SIZE: usize = 336;
    pub const ID: usize = 8;
    pub const EVENT: usize = 12;
    pub const STATUS: usize = 16;
    pub const PARAM: usize = 20;
    /// An older library leaves out what is behind the parameters.
    pub const SHORT: usize = 324;
}

/// `struct rdma_ucm_ud_param`.
pub mod ud_param {
    pub const AH: usize = 8;
    pub const DATA: usize = 40;
    pub const LEN: usize = 296;
}

/// `struct rdma_ucm_conn_param`.
pub mod conn_param {
    pub const SIZE: usize = 272;
    pub const QKEY: usize = 4;
    pub const DATA: usize = 8;
    pub const LEN: usize = 264;
    pub const SRQ: usize = 265;
    pub const RESPONDER: usize = 266;
    pub const INITIATOR: usize = 267;
    pub const FLOW: usize = 268;
    pub const RETRY: usize = 269;
    pub const RNR: usize = 270;
    pub const VALID: usize = 271;
}

/// Bytes of a command's arguments, as the library sends them. Fields that ABI 4 grew later (ECE) may be missing.
pub const fn least(op: u32) -> usize {
    match op {
        op::CREATE_ID | op::DESTROY_ID | op::QUERY_ROUTE | op::INIT_QP_ATTR | op::QUERY => match op
        {
            op::CREATE_ID => 24,
            _ => 16,
        },
        op::BIND_IP => 40,
        op::RESOLVE_IP => 64,
        op::RESOLVE_ROUTE | op::LISTEN | op::NOTIFY => 8,
        op::CONNECT => conn_param::SIZE + 8,
        op::ACCEPT => 8 + conn_param::SIZE + 8,
        op::REJECT => 264,
        op::DISCONNECT => 4,
        op::GET_EVENT => 8,
        op::SET_OPTION => 24,
        op::MIGRATE_ID => 16,
        op::BIND => 136,
        op::RESOLVE_ADDR => 272,
        _ => 0,
    }
}

/// Fields of a message; reading never goes outside of it.
pub fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(b[at..at + 4].try_into().expect("four bytes"))
}
pub fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([b[at], b[at + 1]])
}
pub fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(b[at..at + 8].try_into().expect("eight bytes"))
}
pub fn put(b: &mut [u8], at: usize, v: &[u8]) {
    b[at..at + v.len()].copy_from_slice(v);
}

/// What one side says of its QP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conn {
    pub qpn: u32,
    pub qkey: u32,
    pub srq: u8,
    pub responder: u8,
    pub initiator: u8,
    pub flow: u8,
    pub retry: u8,
    pub rnr: u8,
    pub data: Vec<u8>,
}

impl Conn {
    /// From `struct rdma_ucm_conn_param`; None: not valid (an active side's ACCEPT has none).
    pub fn parse(b: &[u8]) -> Option<Conn> {
        use conn_param as f;
        (b[f::VALID] != 0).then(|| Conn {
            qpn: u32_at(b, 0) & 0xFF_FFFF,
            qkey: u32_at(b, f::QKEY),
            srq: b[f::SRQ],
            responder: b[f::RESPONDER],
            initiator: b[f::INITIATOR],
            flow: b[f::FLOW],
            retry: b[f::RETRY].min(7),
            rnr: b[f::RNR].min(7),
            data: b[f::DATA..f::DATA + b[f::LEN] as usize].to_vec(),
        })
    }
    /// As the other side's event shows it: what one initiates, the other responds to.
    pub fn emit(&self, b: &mut [u8]) {
        use conn_param as f;
        put(b, 0, &self.qpn.to_ne_bytes());
        put(b, f::QKEY, &self.qkey.to_ne_bytes());
        put(b, f::DATA, &self.data);
        b[f::LEN] = self.data.len() as u8;
        b[f::SRQ] = self.srq;
        b[f::RESPONDER] = self.initiator;
        b[f::INITIATOR] = self.responder;
        b[f::FLOW] = self.flow;
        b[f::RETRY] = self.retry;
        b[f::RNR] = self.rnr;
    }
    /// Private data of a message that has room for `room`; more is an error.
    pub fn padded(mut self, room: usize) -> Result<Conn, Errno> {
        if self.data.len() > room {
            return Err(libc::EINVAL);
        }
        self.data.resize(room, 0);
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fmt::Write, process::Command};

    /// The compiler's view of the public headers.
    #[test]
    fn layouts_are_those_of_the_public_headers() {
        if !std::path::Path::new("/usr/include/rdma/rdma_user_cm.h").exists() {
            println!("skipped: no rdma/rdma_user_cm.h (libibverbs-dev)");
            return;
        }
        let mut c = String::from("#include <stddef.h>\n#include <sys/socket.h>\n#include <netinet/in.h>\n#include <rdma/rdma_user_cm.h>\n");
        let mut same = |what: &str, ours: usize| {
            writeln!(
                c,
                "_Static_assert({what} == {ours}, \"{}\");",
                what.replace('"', "")
            )
            .unwrap();
        };
        for (name, size) in [
            ("cmd_hdr", 8),
            ("create_id", least(op::CREATE_ID)),
            ("destroy_id", least(op::DESTROY_ID)),
            ("bind_ip", least(op::BIND_IP)),
            ("resolve_ip", least(op::RESOLVE_IP)),
            ("resolve_route", least(op::RESOLVE_ROUTE)),
            ("query", least(op::QUERY)),
            ("connect", least(op::CONNECT) + 8),
            ("listen", least(op::LISTEN)),
            ("accept", least(op::ACCEPT) + 8),
            ("reject", least(op::REJECT)),
            ("disconnect", least(op::DISCONNECT)),
            ("init_qp_attr", least(op::INIT_QP_ATTR)),
            ("get_event", least(op::GET_EVENT)),
            ("set_option", least(op::SET_OPTION)),
            ("notify", least(op::NOTIFY)),
            ("migrate_id", least(op::MIGRATE_ID)),
            ("bind", least(op::BIND)),
            ("resolve_addr", least(op::RESOLVE_ADDR)),
            ("query_route_resp", route::SIZE),
            ("query_addr_resp", addrs::SIZE),
            ("query_path_resp", path::HEAD),
            ("event_resp", event_resp::SIZE),
            ("conn_param", conn_param::SIZE),
            ("ud_param", 304),
        ] {
            same(&format!("sizeof(struct rdma_ucm_{name})"), size);
        }
        same("sizeof(struct ib_uverbs_qp_attr)", qp_attr::SIZE);
        same("sizeof(struct ib_uverbs_ah_attr)", AH_BYTES);
        same("sizeof(struct ib_user_path_rec)", route::PATH_BYTES);
        same("sizeof(struct ib_path_rec_data)", path::RECORD);
        for (kind, field, at) in [
            ("ib_uverbs_qp_attr", "path_mtu", qp_attr::PATH_MTU),
            ("ib_uverbs_qp_attr", "qkey", qp_attr::QKEY),
            ("ib_uverbs_qp_attr", "rq_psn", qp_attr::RQ_PSN),
            ("ib_uverbs_qp_attr", "sq_psn", qp_attr::SQ_PSN),
            ("ib_uverbs_qp_attr", "dest_qp_num", qp_attr::DEST_QPN),
            ("ib_uverbs_qp_attr", "qp_access_flags", qp_attr::ACCESS),
            ("ib_uverbs_qp_attr", "ah_attr", qp_attr::AH),
            ("ib_uverbs_qp_attr", "max_rd_atomic", qp_attr::MAX_RD),
            (
                "ib_uverbs_qp_attr",
                "max_dest_rd_atomic",
                qp_attr::MAX_DEST_RD,
            ),
            ("ib_uverbs_qp_attr", "min_rnr_timer", qp_attr::MIN_RNR),
            ("ib_uverbs_qp_attr", "port_num", qp_attr::PORT),
            ("ib_uverbs_qp_attr", "timeout", qp_attr::TIMEOUT),
            ("ib_uverbs_qp_attr", "retry_cnt", qp_attr::RETRY),
            ("ib_uverbs_qp_attr", "rnr_retry", qp_attr::RNR_RETRY),
            ("rdma_ucm_query_route_resp", "ib_route", route::PATH),
            ("rdma_ucm_query_route_resp", "src_addr", route::SRC),
            ("rdma_ucm_query_route_resp", "dst_addr", route::DST),
            ("rdma_ucm_query_route_resp", "num_paths", route::PATHS),
            ("rdma_ucm_query_route_resp", "port_num", route::PORT),
            ("rdma_ucm_query_route_resp", "ibdev_index", route::DEVICE),
            ("rdma_ucm_query_addr_resp", "port_num", addrs::PORT),
            ("rdma_ucm_query_addr_resp", "pkey", addrs::PKEY),
            ("rdma_ucm_query_addr_resp", "src_size", addrs::SRC_SIZE),
            ("rdma_ucm_query_addr_resp", "dst_size", addrs::DST_SIZE),
            ("rdma_ucm_query_addr_resp", "src_addr", addrs::SRC),
            ("rdma_ucm_query_addr_resp", "dst_addr", addrs::DST),
            ("rdma_ucm_query_addr_resp", "ibdev_index", addrs::DEVICE),
            ("rdma_ucm_event_resp", "id", event_resp::ID),
            ("rdma_ucm_event_resp", "event", event_resp::EVENT),
            ("rdma_ucm_event_resp", "status", event_resp::STATUS),
            ("rdma_ucm_event_resp", "param", event_resp::PARAM),
            ("rdma_ucm_event_resp", "reserved", event_resp::SHORT),
            ("rdma_ucm_conn_param", "qkey", conn_param::QKEY),
            ("rdma_ucm_conn_param", "private_data", conn_param::DATA),
            ("rdma_ucm_conn_param", "private_data_len", conn_param::LEN),
            ("rdma_ucm_conn_param", "srq", conn_param::SRQ),
            (
                "rdma_ucm_conn_param",
                "responder_resources",
                conn_param::RESPONDER,
            ),
            (
                "rdma_ucm_conn_param",
                "initiator_depth",
                conn_param::INITIATOR,
            ),
            ("rdma_ucm_conn_param", "flow_control", conn_param::FLOW),
            ("rdma_ucm_conn_param", "retry_count", conn_param::RETRY),
            ("rdma_ucm_conn_param", "rnr_retry_count", conn_param::RNR),
            ("rdma_ucm_conn_param", "valid", conn_param::VALID),
            ("rdma_ucm_ud_param", "ah_attr", ud_param::AH),
            ("rdma_ucm_ud_param", "private_data", ud_param::DATA),
            ("rdma_ucm_ud_param", "private_data_len", ud_param::LEN),
        ] {
            same(&format!("offsetof(struct {kind}, {field})"), at);
        }
        for (name, v) in [
            ("CREATE_ID", op::CREATE_ID),
            ("DESTROY_ID", op::DESTROY_ID),
            ("BIND_IP", op::BIND_IP),
            ("RESOLVE_IP", op::RESOLVE_IP),
            ("RESOLVE_ROUTE", op::RESOLVE_ROUTE),
            ("QUERY_ROUTE", op::QUERY_ROUTE),
            ("CONNECT", op::CONNECT),
            ("LISTEN", op::LISTEN),
            ("ACCEPT", op::ACCEPT),
            ("REJECT", op::REJECT),
            ("DISCONNECT", op::DISCONNECT),
            ("INIT_QP_ATTR", op::INIT_QP_ATTR),
            ("GET_EVENT", op::GET_EVENT),
            ("SET_OPTION", op::SET_OPTION),
            ("NOTIFY", op::NOTIFY),
            ("MIGRATE_ID", op::MIGRATE_ID),
            ("QUERY", op::QUERY),
            ("BIND", op::BIND),
            ("RESOLVE_ADDR", op::RESOLVE_ADDR),
        ] {
            same(&format!("RDMA_USER_CM_CMD_{name}"), v as usize);
        }
        for (name, v) in [("TCP", ps::TCP), ("UDP", ps::UDP), ("IB", ps::IB)] {
            same(&format!("RDMA_PS_{name}"), v as usize);
        }
        let file = std::env::temp_dir().join(format!("metaroce-cm-abi-{}.c", std::process::id()));
        std::fs::write(&file, c).unwrap();
        let o = Command::new("cc")
            .args(["-fsyntax-only", "-Wall"])
            .arg(&file)
            .output();
        std::fs::remove_file(&file).unwrap();
        match o {
            Ok(o) => assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr)),
            Err(e) => println!("skipped: no C compiler ({e})"),
        }
    }

    #[test]
    fn what_one_initiates_the_other_responds_to() {
        let mut b = [0u8; conn_param::SIZE];
        assert_eq!(Conn::parse(&b), None);
        let c = Conn {
            qpn: 0x1234,
            responder: 3,
            initiator: 5,
            retry: 7,
            rnr: 6,
            data: vec![9, 8],
            ..Conn::default()
        };
        c.emit(&mut b);
        b[conn_param::VALID] = 1;
        let seen = Conn::parse(&b).unwrap();
        assert_eq!((seen.responder, seen.initiator), (5, 3));
        assert_eq!(
            Conn {
                responder: 3,
                initiator: 5,
                ..seen
            },
            c
        );
        assert_eq!(c.clone().padded(1), Err(libc::EINVAL));
        assert_eq!(c.padded(4).unwrap().data, [9, 8, 0, 0]);
    }
}
