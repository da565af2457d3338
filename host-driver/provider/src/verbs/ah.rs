//! Paths: where a connected QP or a UD send goes.
use super::fail;
use crate::abi::{IbvAh, IbvAhAttr, IbvPd};
use crate::card::Errno;
use crate::ctx::Ctx;
use core::ffi::c_int;
use metaroce_hdl_spec::wqe::{ud_av, UNIT};

/// Hops of a packet whose attributes say 0.
const HOPS: u8 = 64;
/// ECN-capable transport: congestion control needs marks, not drops.
const ECT0: u8 = 2;

/// A resolved path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    pub gid: [u8; 16],
    pub mac: [u8; 6],
    pub ip6: bool,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub tclass: u8,
    pub flow_label: u32,
    pub sl: u8,
}

fn is_mapped(gid: &[u8; 16]) -> bool {
    gid[..10] == [0; 10] && gid[10..12] == [0xff, 0xff]
}

/// Checks the attributes and finds the MAC, without which no packet can be sent: better an error here than a QP that
/// times out.
pub fn resolve(ctx: &Ctx, attr: &IbvAhAttr) -> Result<Path, Errno> {
    let path = check(attr, &ctx.gids)?;
    Ok(Path {
        mac: ctx.card.neighbor(path.gid)?,
        ..path
    })
}

fn check(attr: &IbvAhAttr, gids: &[[u8; 16]]) -> Result<Path, Errno> {
    let gid = attr.grh.gid();
    let source = gids.get(attr.grh.sgid_index as usize).ok_or(libc::EINVAL)?;
    // RoCE has no address but the GID, and both ends of a packet are of one family.
    if attr.is_global == 0
        || attr.port_num != 1
        || gid == [0; 16]
        || *source == [0; 16]
        || is_mapped(&gid) != is_mapped(source)
    {
        return Err(libc::EINVAL);
    }
    Ok(Path {
        gid,
        mac: [0; 6],
        ip6: !is_mapped(&gid),
        sgid_index: attr.grh.sgid_index,
        hop_limit: if attr.grh.hop_limit == 0 {
            HOPS
        } else {
            attr.grh.hop_limit
        },
        tclass: attr.grh.traffic_class & !3 | ECT0,
        flow_label: attr.grh.flow_label & 0xf_ffff,
        sl: attr.sl & 7,
    })
}

/// UDP source port, 0xC000..0xFFFF: from the flow label if the program chose one, else from the QPNs, so that
/// connections spread over equal-cost paths.
pub fn sport(flow_label: u32, qpn: u32, dest_qpn: u32) -> u16 {
    let v = if flow_label != 0 {
        flow_label
    } else {
        // Multiplicative hash; the odd constant is 2^32 over the golden ratio.
        (qpn ^ dest_qpn.rotate_left(12)).wrapping_mul(0x9e37_79b1) >> 12
    };
    (v ^ v >> 14) as u16 & 0x3fff | 0xc000
}

#[repr(C)]
pub struct Ah {
    ibv: IbvAh,
    path: Path,
}

impl Ah {
    pub unsafe fn of<'a>(ah: *mut IbvAh) -> &'a Ah {
        // SAFETY: made by `create_ah`.
        unsafe { &*(ah as *const Ah) }
    }

    /// Unit 1 of a UD send.
    pub fn unit(&self, qpn: u32, dest_qpn: u32, qkey: u32) -> [u8; UNIT] {
        let p = &self.path;
        let mut u = [0; UNIT];
        ud_av::dqpn.put(&mut u, dest_qpn as u64);
        ud_av::hop_limit.put(&mut u, p.hop_limit as u64);
        ud_av::qkey.put(&mut u, qkey as u64);
        ud_av::dmac.put_bytes(&mut u, &p.mac);
        ud_av::sport.put(&mut u, sport(p.flow_label, qpn, dest_qpn) as u64);
        ud_av::dgid.put_bytes(&mut u, &p.gid);
        ud_av::flow_label.put(&mut u, p.flow_label as u64);
        ud_av::tclass.put(&mut u, p.tclass as u64);
        ud_av::pcp.put(&mut u, p.sl as u64);
        ud_av::sgid_index.put(&mut u, p.sgid_index as u64);
        ud_av::ip6.put(&mut u, p.ip6 as u64);
        u
    }
}

pub unsafe extern "C" fn create_ah(pd: *mut IbvPd, attr: *mut IbvAhAttr) -> *mut IbvAh {
    // SAFETY: a PD of ours and the program's attributes.
    let (context, attr) = unsafe { ((*pd).context, &*attr) };
    let ctx = unsafe { Ctx::of(context) };
    if !ctx.usable() {
        return fail(ctx.unusable());
    }
    match resolve(ctx, attr) {
        Ok(path) => Box::into_raw(Box::new(Ah {
            ibv: IbvAh {
                context,
                pd,
                handle: 0,
            },
            path,
        })) as *mut IbvAh,
        Err(e) => fail(e),
    }
}

pub unsafe extern "C" fn destroy_ah(ah: *mut IbvAh) -> c_int {
    // SAFETY: made by `create_ah`.
    drop(unsafe { Box::from_raw(ah as *mut Ah) });
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::IbvGlobalRoute;

    fn attr(gid: [u8; 16], sgid_index: u8) -> IbvAhAttr {
        let word = |i: usize| u64::from_ne_bytes(gid[i..i + 8].try_into().unwrap());
        IbvAhAttr {
            grh: IbvGlobalRoute {
                dgid: [word(0), word(8)],
                sgid_index,
                traffic_class: 0x61,
                ..Default::default()
            },
            is_global: 1,
            port_num: 1,
            ..Default::default()
        }
    }

    #[test]
    fn paths_are_checked() {
        let v4 = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2];
        let v6 = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];
        let gids = [v6, v4];
        let p = check(&attr(v4, 1), &gids).unwrap();
        assert_eq!((p.gid, p.ip6, p.hop_limit, p.tclass), (v4, false, 64, 0x62));
        assert!(check(&attr(v6, 0), &gids).unwrap().ip6);
        assert_eq!(
            check(&attr(v4, 0), &gids),
            Err(libc::EINVAL),
            "families differ"
        );
        assert_eq!(check(&attr(v4, 2), &gids), Err(libc::EINVAL), "no such GID");
        assert_eq!(
            check(&attr(v6, 1), &[v6, [0; 16]]),
            Err(libc::EINVAL),
            "an empty entry"
        );
        assert_eq!(
            check(
                &IbvAhAttr {
                    is_global: 0,
                    ..attr(v4, 1)
                },
                &gids
            ),
            Err(libc::EINVAL)
        );
        assert_eq!(
            check(
                &IbvAhAttr {
                    port_num: 2,
                    ..attr(v4, 1)
                },
                &gids
            ),
            Err(libc::EINVAL)
        );
    }

    #[test]
    fn source_ports_are_dynamic_and_spread() {
        let ports: std::collections::HashSet<u16> =
            (0..256).map(|q| sport(0, 0x1000 + q, 0x2000)).collect();
        assert!(ports.len() > 200 && ports.iter().all(|p| *p >= 0xc000));
        assert_eq!(sport(0x12345, 1, 2), sport(0x12345, 3, 4));
    }

    #[test]
    fn av_unit_fields() {
        let gid = core::array::from_fn(|i| i as u8);
        let path = Path {
            gid,
            mac: [1, 2, 3, 4, 5, 6],
            ip6: true,
            sgid_index: 2,
            hop_limit: 9,
            tclass: 2,
            flow_label: 7,
            sl: 5,
        };
        let ibv = IbvAh {
            context: core::ptr::null_mut(),
            pd: core::ptr::null_mut(),
            handle: 0,
        };
        let u = Ah { ibv, path }.unit(0x11, 0x22, 0x3333);
        assert_eq!(
            (ud_av::dqpn.get(&u), ud_av::qkey.get(&u), ud_av::pcp.get(&u)),
            (0x22, 0x3333, 5)
        );
        assert_eq!(u[8..14], [1, 2, 3, 4, 5, 6]);
        assert_eq!(u[16..32], gid);
    }
}
