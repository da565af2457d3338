//! Memory regions and windows: keys, rights, bounds, and where their bytes are.
use super::rng::Rng;
use metaroce_hdl_spec::cmd::errno;
use metaroce_protocol::model::Access;

/// log2 of keys.
pub const LOG_MR: u32 = 14;

/// Rights, as `IBV_ACCESS_*`.
pub const LOCAL_WRITE: u32 = 1;
pub const REMOTE_WRITE: u32 = 2;
pub const REMOTE_READ: u32 = 4;
pub const REMOTE_ATOMIC: u32 = 8;
/// To read locally needs none.
pub const LOCAL_READ: u32 = 0;

/// The right that a request needs.
pub fn right(access: Access) -> u32 {
    match access {
        Access::RemoteWrite => REMOTE_WRITE,
        Access::RemoteRead => REMOTE_READ,
        Access::RemoteAtomic => REMOTE_ATOMIC,
    }
}

/// What a region is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub pd: u16,
    pub access: u32,
    /// Windows may be bound.
    pub mw_bind: bool,
    pub page_shift: u32,
    /// Page list: addresses of pages, in memory of the provider that stays until the region goes.
    pub list: u64,
    pub va: u64,
    pub len: u64,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    pd: u16,
    type2: bool,
    /// Key of its region, if it is bound.
    bound: Option<u32>,
    /// QP that has bound it.
    qpn: u32,
    access: u32,
    va: u64,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Region(Region),
    Window(Window),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Low byte of the key.
    variant: u8,
    what: What,
}

/// A bind as a work request asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Bind {
    pub key: u32,
    pub lkey: u32,
    pub va: u64,
    pub len: u64,
    pub access: u32,
}

/// Who asks: a QP.
#[derive(Clone, Copy, Debug)]
pub struct Who {
    pub pd: u16,
    pub qpn: u32,
}

pub struct Mrs {
    entries: Vec<Option<Entry>>,
    used: usize,
    limit: usize,
}

fn spans(base: u64, size: u64, va: u64, len: u64) -> bool {
    len <= size && va >= base && va - base <= size - len
}

impl Mrs {
    /// `limit`: regions and windows that may be there.
    pub fn new(limit: u32) -> Mrs {
        Mrs {
            entries: vec![None; 1 << LOG_MR],
            used: 0,
            // key 0 is nobody's
            limit: (limit as usize).min((1 << LOG_MR) - 1),
        }
    }

    fn entry(&self, key: u32) -> Option<&Entry> {
        let e = self.entries.get((key >> 8) as usize)?.as_ref()?;
        (e.variant == key as u8).then_some(e)
    }

    fn window(&mut self, key: u32) -> Option<&mut Window> {
        match &mut self.entries.get_mut((key >> 8) as usize)?.as_mut()?.what {
            What::Window(w) => Some(w),
            What::Region(_) => None,
        }
    }

    fn add(&mut self, rng: &mut Rng, what: What) -> Result<u32, u8> {
        if self.used >= self.limit {
            return Err(errno::ENOMEM);
        }
        let n = self.entries.len();
        let from = rng.next() as usize;
        let at = (0..n).map(|i| (from + i) % n);
        let at = at.filter(|i| *i != 0).find(|i| self.entries[*i].is_none());
        let at = at.ok_or(errno::ENOMEM)?;
        let variant = rng.next() as u8;
        self.entries[at] = Some(Entry { variant, what });
        self.used += 1;
        Ok((at as u32) << 8 | variant as u32)
    }

    fn remove(&mut self, key: u32) {
        self.entries[(key >> 8) as usize] = None;
        self.used -= 1;
    }

    fn legal(r: &Region) -> bool {
        (12..=30).contains(&r.page_shift)
            && r.list.is_multiple_of(64)
            && (1..=1 << 40).contains(&r.len)
            && r.va.checked_add(r.len - 1).is_some()
    }

    /// The object behind `id`, which is to be a region without windows.
    fn free_region(&self, id: u32) -> Result<(), u8> {
        match self.entry(id).ok_or(errno::ENOENT)?.what {
            What::Window(_) => return Err(errno::EINVAL),
            What::Region(_) => {}
        }
        let bound = |e: &Entry| matches!(&e.what, What::Window(w) if w.bound == Some(id));
        if self.entries.iter().flatten().any(bound) {
            return Err(errno::EBUSY);
        }
        Ok(())
    }

    /// REG_MR; the PD is there.
    pub fn register(&mut self, rng: &mut Rng, r: Region) -> Result<u32, u8> {
        if !Self::legal(&r) {
            return Err(errno::EINVAL);
        }
        self.add(rng, What::Region(r))
    }

    /// REREG_MR.
    pub fn change(&mut self, id: u32, r: Region) -> Result<(), u8> {
        if !Self::legal(&r) {
            return Err(errno::EINVAL);
        }
        self.free_region(id)?;
        if let Some(e) = &mut self.entries[(id >> 8) as usize] {
            e.what = What::Region(r);
        }
        Ok(())
    }

    /// DEREG_MR.
    pub fn deregister(&mut self, id: u32) -> Result<(), u8> {
        self.free_region(id)?;
        self.remove(id);
        Ok(())
    }

    /// ALLOC_MW.
    pub fn alloc_window(&mut self, rng: &mut Rng, pd: u16, type2: bool) -> Result<u32, u8> {
        let w = Window {
            pd,
            type2,
            bound: None,
            qpn: 0,
            access: 0,
            va: 0,
            len: 0,
        };
        self.add(rng, What::Window(w))
    }

    /// DEALLOC_MW: `id` is the key that ALLOC_MW gave, whatever low byte it has now.
    pub fn dealloc_window(&mut self, id: u32) -> Result<(), u8> {
        let e = self.entries.get((id >> 8) as usize).copied().flatten();
        match e.ok_or(errno::ENOENT)?.what {
            What::Region(_) => return Err(errno::EINVAL),
            What::Window(_) => self.remove(id),
        }
        Ok(())
    }

    /// Something uses this PD.
    pub fn uses_pd(&self, pd: u16) -> bool {
        self.entries.iter().flatten().any(|e| match &e.what {
            What::Region(r) => r.pd == pd,
            What::Window(w) => w.pd == pd,
        })
    }

    /// BIND_MW; false: refused, and nothing changes.
    pub fn bind(&mut self, who: Who, b: &Bind) -> bool {
        let region = match self.entry(b.lkey).map(|e| e.what) {
            Some(What::Region(r)) => Some(r),
            _ => None,
        };
        let Some(w) = self.window(b.key) else {
            return false;
        };
        // a window of type 2 is bound once; it, and only by its QP, may be given back
        let free = !w.type2 || w.bound.is_none() || (b.len == 0 && w.qpn == who.qpn);
        if w.pd != who.pd || !free {
            return false;
        }
        if b.len != 0 {
            let write = b.access & (REMOTE_WRITE | REMOTE_ATOMIC) != 0;
            let good = |r: &Region| {
                r.pd == who.pd
                    && r.mw_bind
                    && (!write || r.access & LOCAL_WRITE != 0)
                    && spans(r.va, r.len, b.va, b.len)
            };
            if !region.as_ref().is_some_and(good) {
                return false;
            }
        }
        w.bound = (b.len != 0).then_some(b.lkey);
        w.qpn = who.qpn;
        (w.access, w.va, w.len) = (b.access, b.va, b.len);
        if let Some(e) = &mut self.entries[(b.key >> 8) as usize] {
            e.variant = b.key as u8;
        }
        true
    }

    /// May this QP end the binding of `key`?
    pub fn may_invalidate(&self, who: Who, key: u32) -> bool {
        match self.entry(key).map(|e| e.what) {
            Some(What::Window(w)) => {
                w.type2 && w.bound.is_some() && w.qpn == who.qpn && w.pd == who.pd
            }
            _ => false,
        }
    }

    /// LOCAL_INV or SEND with invalidate; false: refused.
    pub fn invalidate(&mut self, who: Who, key: u32) -> bool {
        let may = self.may_invalidate(who, key);
        if let Some(w) = self.window(key).filter(|_| may) {
            w.bound = None;
        }
        may
    }

    /// The region behind a key, if it gives `rights` on the whole of `[va, va + len)`.
    fn find(&self, who: Who, key: u32, va: u64, len: u64, rights: u32) -> Option<&Region> {
        match &self.entry(key)?.what {
            What::Region(r) => {
                let ok = r.pd == who.pd && r.access & rights == rights;
                (ok && spans(r.va, r.len, va, len)).then_some(r)
            }
            // only remote requests go through a window
            What::Window(w) => {
                let remote = rights & (REMOTE_WRITE | REMOTE_READ | REMOTE_ATOMIC) != 0;
                let mine = w.pd == who.pd && (!w.type2 || w.qpn == who.qpn);
                let ok = remote && mine && w.access & rights == rights;
                let parent = w.bound.filter(|_| ok && spans(w.va, w.len, va, len))?;
                match &self.entry(parent)?.what {
                    What::Region(r) => Some(r),
                    What::Window(_) => None,
                }
            }
        }
    }

    pub fn allows(&self, who: Who, key: u32, va: u64, len: u64, rights: u32) -> bool {
        self.find(who, key, va, len, rights).is_some()
    }

    /// Adds where `[va, va + len)` is to `out`; false: not allowed.
    pub fn stretches(
        &self,
        who: Who,
        key: u32,
        va: u64,
        len: u64,
        rights: u32,
        out: &mut Vec<libc::iovec>,
    ) -> bool {
        let Some(r) = self.find(who, key, va, len, rights) else {
            return false;
        };
        let page = 1u64 << r.page_shift;
        let first = r.va >> r.page_shift;
        let (mut va, mut left) = (va, len);
        while left != 0 {
            let k = (va >> r.page_shift) - first;
            // SAFETY: the list has an entry for each page of the region, and stays until it is deregistered.
            let base = unsafe { (r.list as *const u64).add(k as usize).read() };
            let offset = va & (page - 1);
            let n = left.min(page - offset);
            let at = u64::from_le(base).wrapping_add(offset);
            match out.last_mut() {
                Some(v) if v.iov_base as u64 + v.iov_len as u64 == at => v.iov_len += n as usize,
                _ => out.push(libc::iovec {
                    iov_base: at as usize as *mut libc::c_void,
                    iov_len: n as usize,
                }),
            }
            va = va.wrapping_add(n);
            left -= n;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHO: Who = Who { pd: 3, qpn: 7 };

    #[repr(align(64))]
    struct List([u64; 8]);

    fn region(list: &List, va: u64, len: u64, access: u32) -> Region {
        Region {
            pd: 3,
            access,
            mw_bind: true,
            page_shift: 12,
            list: list.0.as_ptr() as u64,
            va,
            len,
        }
    }

    #[test]
    fn pages_are_followed_and_neighbours_joined() {
        let list = List([0x10000, 0x11000, 0x50000, 0, 0, 0, 0, 0]);
        let mut m = Mrs::new(10);
        let mut rng = Rng::from(1);
        let key = m
            .register(&mut rng, region(&list, 0x7f00, 0x2000, 1))
            .unwrap();
        assert_ne!(key >> 8, 0);
        let mut out = vec![];
        assert!(m.stretches(WHO, key, 0x7f80, 0x1f00, LOCAL_WRITE, &mut out));
        let got: Vec<_> = out.iter().map(|v| (v.iov_base as u64, v.iov_len)).collect();
        assert_eq!(got, [(0x10f80, 0x1080), (0x50000, 0xe80)]);
        for (va, len, rights) in [
            (0x7eff, 2, 0),
            (0x9f00, 1, 0),
            (0x7f00, 0x2001, 0),
            (0x7f00, 1, REMOTE_READ),
            (u64::MAX, 2, 0),
        ] {
            assert!(!m.allows(WHO, key, va, len, rights), "{va:x} {len:x}");
        }
        assert!(!m.allows(Who { pd: 4, ..WHO }, key, 0x7f00, 1, 0));
        assert!(!m.allows(WHO, key ^ 1, 0x7f00, 1, 0));
        assert_eq!(m.deregister(key ^ 1), Err(errno::ENOENT));
        assert_eq!(m.deregister(key), Ok(()));
        assert!(!m.allows(WHO, key, 0x7f00, 1, 0));
    }

    #[test]
    fn illegal_regions_and_limits() {
        let list = List([0; 8]);
        let good = region(&list, 0, 1, 0);
        let mut m = Mrs::new(2);
        let mut rng = Rng::from(2);
        for bad in [
            Region { len: 0, ..good },
            Region {
                len: (1 << 40) + 1,
                ..good
            },
            Region {
                page_shift: 11,
                ..good
            },
            Region {
                va: u64::MAX,
                len: 2,
                ..good
            },
            Region {
                list: good.list + 8,
                ..good
            },
        ] {
            assert_eq!(m.register(&mut rng, bad), Err(errno::EINVAL), "{bad:?}");
        }
        m.register(&mut rng, good).unwrap();
        m.register(&mut rng, good).unwrap();
        assert_eq!(m.register(&mut rng, good), Err(errno::ENOMEM));
    }

    #[test]
    fn windows() {
        let list = List([0; 8]);
        let mut m = Mrs::new(100);
        let mut rng = Rng::from(3);
        let mr = m
            .register(&mut rng, region(&list, 0x1000, 0x1000, 1))
            .unwrap();
        let read_only = m
            .register(&mut rng, region(&list, 0x1000, 0x1000, 0))
            .unwrap();
        let id = m.alloc_window(&mut rng, 3, true).unwrap();
        let key = id & !0xff | (id.wrapping_add(1) & 0xff);
        let bind = Bind {
            key,
            lkey: mr,
            va: 0x1100,
            len: 0x100,
            access: REMOTE_WRITE,
        };
        for bad in [
            Bind {
                lkey: read_only,
                ..bind
            },
            Bind { va: 0x1f80, ..bind },
            Bind { lkey: id, ..bind },
            Bind { key: mr, ..bind },
        ] {
            assert!(!m.bind(WHO, &bad), "{bad:?}");
        }
        assert!(!m.bind(Who { pd: 2, ..WHO }, &bind));
        assert!(m.bind(WHO, &bind));
        assert!(!m.bind(WHO, &bind), "bound once");
        assert!(m.allows(WHO, key, 0x1100, 0x100, REMOTE_WRITE));
        assert!(!m.allows(WHO, key, 0x1100, 0x101, REMOTE_WRITE));
        assert!(!m.allows(WHO, key, 0x1100, 1, REMOTE_READ));
        assert!(
            !m.allows(WHO, key, 0x1100, 1, LOCAL_READ),
            "windows are for others"
        );
        assert!(!m.allows(Who { qpn: 8, ..WHO }, key, 0x1100, 1, REMOTE_WRITE));
        assert_eq!(m.deregister(mr), Err(errno::EBUSY));
        assert!(!m.invalidate(Who { qpn: 8, ..WHO }, key));
        assert!(m.invalidate(WHO, key));
        assert!(!m.allows(WHO, key, 0x1100, 1, REMOTE_WRITE));
        assert!(!m.invalidate(WHO, key));
        assert!(m.bind(WHO, &bind));
        assert_eq!(m.dealloc_window(id), Ok(()), "bound or not");
        assert_eq!(m.deregister(mr), Ok(()));
        assert_eq!(m.dealloc_window(read_only), Err(errno::EINVAL));
        // type 1: bound anew, for all QPs of the PD
        let one = m.alloc_window(&mut rng, 3, false).unwrap();
        let mr = m
            .register(&mut rng, region(&list, 0x1000, 0x1000, 1))
            .unwrap();
        let bind = Bind {
            key: one,
            lkey: mr,
            ..bind
        };
        assert!(m.bind(WHO, &bind));
        assert!(m.bind(
            WHO,
            &Bind {
                key: one ^ 1,
                ..bind
            }
        ));
        assert!(m.allows(Who { qpn: 8, ..WHO }, one ^ 1, 0x1100, 1, REMOTE_WRITE));
        assert!(!m.allows(WHO, one, 0x1100, 1, REMOTE_WRITE), "the old key");
        assert!(!m.may_invalidate(WHO, one ^ 1));
    }
}
