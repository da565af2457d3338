//! Two queue pairs of one device, brought up towards each other, and what goes between them.

use super::{
    probe::Options,
    verbs::{
        attr, Ah, Cq, Device, Made, Memory, Mr, Mw, Pd, Qp, REMOTE_ATOMIC, REMOTE_READ,
        REMOTE_WRITE,
    },
};
use metaroce::abi::{
    IbvAhAttr, IbvGlobalRoute, IbvMwBindInfo, IbvQpAttr, IbvQpCap, IbvQpInitAttr, IbvSendWr,
    IbvSge, IbvWc,
};
use std::{
    ffi::c_int,
    ptr::null_mut,
    time::{Duration, Instant},
};

pub const RC: c_int = 2;
pub const UC: c_int = 3;
pub const UD: c_int = 4;
pub const WRITE: c_int = 0;
pub const SEND: c_int = 2;
pub const READ: c_int = 4;
pub const CMP_SWAP: c_int = 5;
pub const FETCH_ADD: c_int = 6;
pub const LOCAL_INV: c_int = 7;
pub const BIND_MW: c_int = 8;
pub const SEND_INV: c_int = 9;
pub const SIGNALED: u32 = 2;
pub const QKEY: u32 = 0x1111;
/// Ends a run that hangs; nothing is measured by it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a queue pair tries.
#[derive(Clone, Copy)]
pub struct Patience {
    pub timeout: u8,
    pub retries: u8,
    pub min_rnr: u8,
    pub rnr_retries: u8,
    /// Where the other one is, if not on the same device.
    pub gid: Option<[u8; 16]>,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            timeout: 18,
            retries: 7,
            min_rnr: 12,
            rnr_retries: 7,
            gid: None,
        }
    }
}

/// What the probes of a device share.
pub struct Bench<'a> {
    pub dev: &'a Device,
    pub pd: &'a Pd<'a>,
    pub cq: &'a Cq<'a>,
    pub mem: &'a Memory,
    pub mr: &'a Mr<'a>,
    pub gid: [u8; 16],
    pub o: &'a Options,
    /// Told how far a long count has come.
    pub far: &'a dyn Fn(&str),
}

pub fn cap() -> IbvQpCap {
    IbvQpCap {
        max_send_wr: 16,
        max_recv_wr: 16,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    }
}

pub fn wr(op: c_int, sge: &mut IbvSge) -> IbvSendWr {
    // SAFETY: integers and null pointers.
    let mut w: IbvSendWr = unsafe { std::mem::zeroed() };
    w.opcode = op;
    w.send_flags = SIGNALED;
    w.sg_list = sge;
    w.num_sge = 1;
    w
}

/// Where a datagram goes.
pub fn to(ah: &Ah, peer: &Qp) -> [u64; 4] {
    let qp = u64::from(peer.number()) | u64::from(QKEY) << 32;
    [ah.raw() as u64, qp, 0, 0]
}

pub fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len)
        .map(|k| (k as u8).wrapping_mul(31) ^ (k >> 8) as u8 ^ seed)
        .collect()
}

impl Bench<'_> {
    pub fn qp(&self, kind: c_int, cap: IbvQpCap) -> Made<Qp<'_>> {
        let mut i = IbvQpInitAttr {
            qp_context: null_mut(),
            send_cq: null_mut(),
            recv_cq: null_mut(),
            srq: null_mut(),
            cap,
            qp_type: kind,
            sq_sig_all: 0,
        };
        self.pd.qp(self.cq, &mut i)
    }

    pub fn two(&self, kind: c_int) -> Made<(Qp<'_>, Qp<'_>)> {
        Ok((self.qp(kind, cap())?, self.qp(kind, cap())?))
    }

    pub fn path(&self) -> IbvAhAttr {
        self.path_to(self.gid)
    }

    fn path_to(&self, gid: [u8; 16]) -> IbvAhAttr {
        let half = |k: usize| u64::from_ne_bytes(gid[k..k + 8].try_into().expect("8 bytes"));
        IbvAhAttr {
            grh: IbvGlobalRoute {
                dgid: [half(0), half(8)],
                sgid_index: self.o.gid_index,
                hop_limit: 64,
                ..Default::default()
            },
            is_global: 1,
            port_num: 1,
            ..Default::default()
        }
    }

    /// Brings an RC or UC QP up towards `peer`.
    pub fn up(&self, q: &Qp, peer: u32, mtu: c_int, reads: Option<u8>) -> Made<()> {
        self.up_with(q, peer, mtu, reads, Patience::default())
    }

    pub fn up_with(
        &self,
        q: &Qp,
        peer: u32,
        mtu: c_int,
        reads: Option<u8>,
        p: Patience,
    ) -> Made<()> {
        const INIT: c_int = 0x39;
        const RTR: c_int = 0x10_1181;
        const RTR_RC: c_int = 0x2_8000;
        const RTS: c_int = 0x1_0001;
        const RTS_RC: c_int = 0x2E00;
        let mut a = IbvQpAttr {
            qp_state: 1,
            port_num: 1,
            qp_access_flags: (REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC) as u32,
            ..attr()
        };
        if reads.is_none() {
            a.qp_access_flags = REMOTE_WRITE as u32;
        }
        if q.modify(&mut a, INIT).is_err() {
            // not every card has atomics
            a.qp_access_flags &= !(REMOTE_ATOMIC as u32);
            q.modify(&mut a, INIT)?;
        }
        let rc = reads.is_some();
        let mut a = IbvQpAttr {
            qp_state: 2,
            path_mtu: mtu,
            dest_qp_num: peer,
            rq_psn: 7,
            max_dest_rd_atomic: reads.unwrap_or(0),
            min_rnr_timer: p.min_rnr,
            ah_attr: self.path_to(p.gid.unwrap_or(self.gid)),
            ..attr()
        };
        q.modify(&mut a, RTR | if rc { RTR_RC } else { 0 })?;
        let mut a = IbvQpAttr {
            qp_state: 3,
            sq_psn: 7,
            timeout: p.timeout,
            retry_cnt: p.retries,
            rnr_retry: p.rnr_retries,
            max_rd_atomic: reads.unwrap_or(0),
            ..attr()
        };
        q.modify(&mut a, RTS | if rc { RTS_RC } else { 0 })
    }

    pub fn join(&self, a: &Qp, b: &Qp, mtu: c_int, reads: u8) -> Made<()> {
        self.up(a, b.number(), mtu, Some(reads))?;
        self.up(b, a.number(), mtu, Some(reads))
    }

    /// Takes what earlier QPs left behind.
    pub fn drain(&self) {
        while self.cq.poll().is_some() {}
    }

    /// Two connected RC QPs.
    pub fn pair(&self) -> Made<(Qp<'_>, Qp<'_>)> {
        self.drain();
        let (a, b) = self.two(RC)?;
        self.join(&a, &b, 3, 1)?;
        Ok((a, b))
    }

    pub fn sge(&self, at: usize, length: usize) -> IbvSge {
        IbvSge {
            addr: self.mem.at(at),
            length: length as u32,
            lkey: self.mr.keys().0,
        }
    }

    pub fn wait(&self) -> Option<IbvWc> {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if let Some(wc) = self.cq.poll() {
                return Some(wc);
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        None
    }

    /// Posts it, and whether it completed well.
    pub fn done(&self, q: &Qp, w: &mut IbvSendWr) -> bool {
        q.send(w).is_ok() && self.wait().is_some_and(|c| c.status == 0)
    }

    /// A message of `len` bytes from `a` to `b`, byte for byte.
    pub fn message(&self, a: &Qp, b: &Qp, len: usize) -> bool {
        const TO: usize = 32_768;
        self.drain();
        let bytes = pattern(len as u8, len);
        self.mem.put(0, &bytes);
        self.mem.put(TO, &vec![0xEE; len]);
        if b.recv(self.sge(TO, len)).is_err() {
            return false;
        }
        let mut s = self.sge(0, len);
        if a.send(&mut wr(SEND, &mut s)).is_err() {
            return false;
        }
        (0..2).all(|_| self.wait().is_some_and(|c| c.status == 0)) && self.mem.get(TO, len) == bytes
    }

    /// Brings a UD QP up.
    pub fn ready(&self, q: &Qp) -> Made<()> {
        const INIT: c_int = 0x71;
        const RTR: c_int = 1;
        const RTS: c_int = 0x1_0001;
        for (qp_state, mask) in [(1, INIT), (2, RTR), (3, RTS)] {
            let mut a = IbvQpAttr {
                qp_state,
                port_num: 1,
                qkey: QKEY,
                sq_psn: 5,
                ..attr()
            };
            q.modify(&mut a, mask)?;
        }
        Ok(())
    }

    /// Binds a window for WRITEs to 4096 bytes at 4096, by a QP: its key.
    pub fn bound(&self, w: &Mw, base: &Mr, by: &Qp) -> Option<u32> {
        let key = (w.rkey() & !0xFF) | (w.rkey().wrapping_add(1) & 0xFF);
        let info = IbvMwBindInfo {
            mr: base.raw(),
            addr: self.mem.at(4096),
            length: 4096,
            access: REMOTE_WRITE as u32,
        };
        let mut none = self.sge(0, 1);
        let mut bind = wr(BIND_MW, &mut none);
        bind.num_sge = 0;
        bind.set_bind(w.p, key, &info);
        self.done(by, &mut bind).then_some(key)
    }
}
