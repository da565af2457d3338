//! Devices, contexts, and what the device says of itself.
use super::{event, mr, ring, size};
use crate::abi::ex::IbvDeviceAttrEx;
use crate::abi::*;
use crate::card::sim::SimCard;
use crate::card::Card;
use crate::ctx::{Ctx, Identity};
use crate::hce::{self, Chosen, Decisions};
use crate::register::library;
use crate::say;
use crate::soft::{Port, SoftCard};
use crate::tree::{FIRST_UVERBS, GIDS};
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::size_of;
use metaroce_hdl_spec::regs::admin;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::Arc;

const LINK_ETHERNET: u8 = 2;
const PORT_ACTIVE: c_int = 4;
const PORT_DOWN: c_int = 1;
const PHYS_LINK_UP: u8 = 5;
const PHYS_DISABLED: u8 = 3;
/// GRH present for every packet, and the card names addresses by IP.
const PORT_CAP_IP_BASED_GIDS: u32 = 1 << 26;
const MTU_4096: c_int = 5;
/// Largest IPv6 RoCE header with the MetaRoCE extensions: IP 40, UDP 8, BTH 12, MRTH 16, tag 8, RETH 16, immediate 4,
/// pad 3 and ICRC 4.
const HEADERS: u32 = 111;

/// Rates that verbs can name: Mb/s, lanes (`active_width`: 1, 2 = 4, 16 = 2) and the rate of a lane (`active_speed`).
const RATES: [(u64, u8, u8); 9] = [
    (2_500, 1, 1),
    (5_000, 1, 2),
    (10_000, 1, 4),
    (14_000, 1, 16),
    (20_000, 2, 2),
    (25_000, 1, 32),
    (40_000, 2, 4),
    (50_000, 16, 32),
    (100_000, 2, 32),
];

/// Width and speed of a port: the largest nameable rate that it has; the smallest for what is slower than that.
fn width_and_speed(mbps: u64) -> (u8, u8) {
    let r = RATES.iter().rev().find(|r| r.0 <= mbps);
    let &(_, width, speed) = r.unwrap_or(&RATES[0]);
    (width, speed)
}

/// `ibv_mtu` (1 = 256 .. 5 = 4096): the largest payload that fits the Ethernet MTU with the largest headers.
pub fn active_mtu(link: u32) -> c_int {
    (1..=MTU_4096)
        .rev()
        .find(|m| (128 << m) + HEADERS <= link)
        .unwrap_or(1)
}

pub unsafe extern "C" fn alloc_device(_sysfs: *mut c_void) -> *mut c_void {
    // SAFETY: libibverbs fills the structure; some room for releases that have grown it.
    unsafe { libc::calloc(1, VERBS_DEVICE_BYTES + 312) }
}

pub unsafe extern "C" fn uninit_device(device: *mut c_void) {
    // SAFETY: made by `alloc_device`.
    unsafe { libc::free(device) }
}

fn text(field: &[c_char]) -> String {
    // SAFETY: libibverbs terminates its names.
    unsafe { CStr::from_ptr(field.as_ptr()) }
        .to_string_lossy()
        .into_owned()
}

/// Reads what the sysfs tree says: the simulator wrote it from the same source that configured the card.
fn identity(device: &Path) -> Identity {
    let read = |name: &str| std::fs::read_to_string(device.join(name)).unwrap_or_default();
    let hex = |s: &str| -> Vec<u8> {
        let digits: Vec<u8> = s
            .bytes()
            .filter_map(|c| (c as char).to_digit(16))
            .map(|d| d as u8)
            .collect();
        digits.chunks_exact(2).map(|d| d[0] << 4 | d[1]).collect()
    };
    let guid = hex(&read("node_guid"))
        .try_into()
        .map_or(0, u64::from_be_bytes);
    let gids = (0..GIDS)
        .map_while(|i| hex(&read(&format!("ports/1/gids/{i}"))).try_into().ok())
        .collect();
    let link_mtu = read("ports/1/mtu").trim().parse().unwrap_or(1500);
    // As the kernel writes it: "100 Gb/sec (4X EDR)".
    let rate = read("ports/1/rate");
    let gbps = rate.split(' ').next().and_then(|r| r.parse::<f64>().ok());
    Identity {
        guid,
        gids,
        link_mtu,
        link_mbps: gbps.map_or(0, |g| (g * 1000.0) as u64),
    }
}

/// Why a device can't be opened: a sentence for the user, and an errno.
struct Refused(String, c_int);

impl<T: Into<String>> From<T> for Refused {
    fn from(why: T) -> Self {
        Refused(why.into(), libc::ENODEV)
    }
}

/// The card that the verbs work on: the simulated one, or the transport in software above its raw packet queues.
fn card_of(sim: SimCard, id: &Identity, name: &str) -> Result<(Box<dyn Card>, Decisions), Refused> {
    let features = sim.peek(admin::FEATURES)?;
    let switches = std::env::var("METAROCE_HCE").unwrap_or_default();
    let hce = hce::decide(features, &switches).map_err(|e| Refused(e, libc::EINVAL))?;
    if hce.show {
        say(&format!(
            "{name}: who does what\n{}",
            hce.table().trim_end()
        ));
    }
    if let Some(path) = std::env::var_os("METAROCE_HCE_REPORT").filter(|p| !p.is_empty()) {
        std::fs::write(&path, hce.json(name)).map_err(|e| {
            let path = Path::new(&path).display();
            Refused(
                format!("METAROCE_HCE_REPORT: {path} can't be written ({e})"),
                libc::EINVAL,
            )
        })?;
    }
    if hce.transport() == Chosen::Hardware {
        return Ok((Box::new(sim), hce));
    }
    let (pasid, time) = (sim.pasid(), sim.time());
    let port = Port {
        mac: mac_of(&id.gids),
        gids: id.gids.clone(),
        mtu: id.link_mtu,
    };
    let card = SoftCard::new(Arc::new(sim), pasid, port, Some(time));
    Ok((Box::new(card), hce))
}

/// The port's MAC, which its link-local GID is made of.
fn mac_of(gids: &[[u8; 16]]) -> [u8; 6] {
    let g = gids.first().copied().unwrap_or_default();
    [g[8] ^ 2, g[9], g[10], g[13], g[14], g[15]]
}

fn open(device: &IbvDevice) -> Result<(Arc<Ctx>, c_int), Refused> {
    let path = std::env::var_os("METAROCE_SOCK").filter(|p| !p.is_empty()).ok_or(
        "METAROCE_SOCK does not say where the simulator is; start the program with 'metaroce run'",
    )?;
    let name = text(&device.dev_name);
    let index = name
        .strip_prefix("uverbs")
        .and_then(|n| n.parse::<u32>().ok())
        .and_then(|n| n.checked_sub(FIRST_UVERBS));
    let index = index.ok_or(format!("{name} is not a simulated card"))?;
    let id = identity(Path::new(&text(&device.ibdev_path)));
    let sim = SimCard::connect(Path::new(&path), index)?;
    let (card, hce) = card_of(sim, &id, &text(&device.name))?;
    let mut ends = [0; 2];
    // SAFETY: two descriptors are filled.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        let e = std::io::Error::last_os_error();
        return Err(format!("no pipe for events ({e})").into());
    }
    let write = event::both_ends(ends[0]);
    // SAFETY: ours; `both_ends` has its own descriptor.
    unsafe { libc::close(ends[1]) };
    let made = write
        .map_err(|e| format!("no pipe for events ({e})"))
        .and_then(|w| Ctx::new(card, id, w, hce));
    if made.is_err() {
        // SAFETY: ours, and nobody has it.
        unsafe { libc::close(ends[0]) };
    }
    Ok((made?, ends[0]))
}

/// Opens a device. Owns `cmd_fd` from here on.
pub unsafe extern "C" fn alloc_context(
    device: *mut IbvDevice,
    cmd_fd: c_int,
    _private: *mut c_void,
) -> *mut c_void {
    // SAFETY: libibverbs passes a device that it filled.
    let dev = unsafe { &*device };
    let (ctx, async_fd) = match open(dev) {
        Ok(c) => c,
        Err(Refused(why, errno)) => {
            say(&format!("{}: {why}", text(&dev.name)));
            // SAFETY: ours to close.
            unsafe {
                libc::close(cmd_fd);
                *libc::__errno_location() = errno;
            }
            return core::ptr::null_mut();
        }
    };
    let lib = library();
    let context_at = lib.table.context_at();
    // SAFETY: the structure is `verbs_context` with our pointer behind it.
    unsafe {
        let size = context_at + size_of::<IbvContext>() + size_of::<usize>();
        let vctx = (lib.init_and_alloc_context)(device, cmd_fd, size, core::ptr::null_mut(), 0);
        if vctx.is_null() {
            ctx.close();
            libc::close(async_fd);
            return vctx;
        }
        let context = (vctx as *mut u8).add(context_at) as *mut IbvContext;
        (*context).async_fd = async_fd;
        (*context).num_comp_vectors = 1;
        ctx.ibv.store(context as usize, Ordering::Release);
        *(context.add(1) as *mut *const Ctx) = Arc::into_raw(ctx);
        (lib.set_ops)(vctx, crate::ops::table(lib.table).as_ptr());
        vctx
    }
}

pub unsafe extern "C" fn free_context(context: *mut IbvContext) {
    // SAFETY: made by `alloc_context`.
    unsafe {
        let ctx = Arc::from_raw(*(context.add(1) as *const *const Ctx));
        ctx.close();
        drop(ctx);
        let lib = library();
        let vctx = (context as *mut u8).sub(lib.table.context_at()) as *mut c_void;
        (lib.uninit_context)(vctx);
        libc::free(vctx);
    }
}

pub unsafe extern "C" fn query_device_ex(
    context: *mut IbvContext,
    input: *const c_void,
    attr: *mut c_void,
    attr_size: usize,
) -> c_int {
    // SAFETY: the input is a single word; the context is ours.
    if !input.is_null() && unsafe { *(input as *const u32) } != 0 {
        return libc::EINVAL;
    }
    if attr_size < size_of::<IbvDeviceAttr>() {
        return libc::EOPNOTSUPP;
    }
    let all = device_attr_ex(unsafe { Ctx::of(context) });
    let known = attr_size.min(size_of::<IbvDeviceAttrEx>());
    // SAFETY: `attr_size` bytes of the program's, which may be older or newer than this build.
    unsafe {
        core::ptr::write_bytes(attr as *mut u8, 0, attr_size);
        core::ptr::copy_nonoverlapping(&all as *const _ as *const u8, attr as *mut u8, known);
    }
    0
}

fn device_attr_ex(ctx: &Ctx) -> IbvDeviceAttrEx {
    // SAFETY: plain numbers, for which zero is "none": no paging, TSO, RSS, pacing, tag matching, moderation, device
    // memory and PCIe atomics.
    let mut a: IbvDeviceAttrEx = unsafe { core::mem::zeroed() };
    a.base = device_attr(ctx);
    // Completion timestamps are card time: 64 bits of nanoseconds.
    a.completion_timestamp_mask = u64::MAX;
    a.hca_core_clock = 1_000_000;
    a.device_cap_flags_ex = a.base.device_cap_flags as u64;
    a.phys_port_cnt_ex = a.base.phys_port_cnt as u32;
    a
}

fn device_attr(ctx: &Ctx) -> IbvDeviceAttr {
    const CURR_QP_STATE_MOD: u32 = 1 << 7;
    const PORT_ACTIVE_EVENT: u32 = 1 << 10;
    const SYS_IMAGE_GUID: u32 = 1 << 11;
    const RC_RNR_NAK_GEN: u32 = 1 << 12;
    const MEM_WINDOW: u32 = 1 << 17;
    /// Bound to a QP, whose PD counts, too. (MEM_MGT_EXTENSIONS would also promise fast registration.)
    const MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
    let caps = &ctx.caps;
    // SAFETY: plain numbers, for which zero is "none".
    let mut a: IbvDeviceAttr = unsafe { core::mem::zeroed() };
    let version = env!("CARGO_PKG_VERSION").as_bytes();
    a.fw_ver[..version.len()].copy_from_slice(version);
    a.node_guid = ctx.guid.to_be();
    a.sys_image_guid = ctx.guid.to_be();
    a.max_mr_size = mr::MAX_MR;
    a.page_size_cap = 1 << mr::PAGE_SHIFT;
    // Locally administered: no vendor has assigned an id.
    a.vendor_id = 0x02_4d52;
    a.vendor_part_id = 1;
    a.hw_ver = 1;
    // The table, or what the administrator leaves to a process.
    let least = |table: u32, limit: u32| table.min(limit) as c_int;
    let [mrs, qps, cqs, pds] = caps.limits;
    a.max_qp = least(1 << caps.log_qp, qps);
    a.max_qp_wr = size::MAX_WR as c_int;
    a.device_cap_flags = CURR_QP_STATE_MOD | PORT_ACTIVE_EVENT | SYS_IMAGE_GUID | RC_RNR_NAK_GEN;
    a.max_sge = caps.max_sge.min(super::wqe::max_sges(true) as u32) as c_int;
    a.max_sge_rd = a.max_sge;
    if caps.srq {
        // One table with the QPs.
        a.max_srq = a.max_qp;
        a.max_srq_wr = size::MAX_WR as c_int;
        a.max_srq_sge = super::srq::max_sge(caps.max_sge) as c_int;
    }
    a.max_cq = least(1 << caps.log_cq, cqs);
    a.max_cqe = ring::MAX_CQE as c_int;
    // A key of 0 is nobody's: entry 0 stays empty.
    a.max_mr = least((1 << caps.log_mr) - 1, mrs);
    if caps.windows {
        a.device_cap_flags |= MEM_WINDOW | MEM_WINDOW_TYPE_2B;
        a.max_mw = a.max_mr;
    }
    a.max_pd = least(1 << caps.log_pd, pds);
    a.max_qp_rd_atom = caps.max_rd as c_int;
    a.max_qp_init_rd_atom = caps.max_rd as c_int;
    a.max_res_rd_atom = (caps.max_rd << caps.log_qp) as c_int;
    // IBV_ATOMIC_HCA: atomic among the QPs of this card.
    a.atomic_cap = caps.atomics as c_int;
    // Host-only objects.
    a.max_ah = 1 << 20;
    a.max_pkeys = 1;
    a.local_ca_ack_delay = 15;
    a.phys_port_cnt = 1;
    a
}

pub unsafe extern "C" fn query_port(
    context: *mut IbvContext,
    port: u8,
    attr: *mut IbvPortAttr,
) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    // SAFETY: a context of ours; libibverbs passes a whole structure.
    let ctx = unsafe { Ctx::of(context) };
    let up = ctx.usable()
        && ctx
            .card
            .register(metaroce_hdl_spec::regs::admin::LINK)
            .is_ok_and(|v| v & 1 != 0);
    let (active_width, active_speed) = width_and_speed(ctx.link_mbps);
    let a = IbvPortAttr {
        state: if up { PORT_ACTIVE } else { PORT_DOWN },
        max_mtu: MTU_4096,
        active_mtu: active_mtu(ctx.link_mtu),
        gid_tbl_len: ctx.gids.len() as c_int,
        port_cap_flags: PORT_CAP_IP_BASED_GIDS,
        max_msg_sz: super::wqe::MAX_MSG as u32,
        pkey_tbl_len: 1,
        max_vl_num: 1,
        active_width,
        active_speed,
        phys_state: if up { PHYS_LINK_UP } else { PHYS_DISABLED },
        link_layer: LINK_ETHERNET,
        ..IbvPortAttr::default()
    };
    // SAFETY: as above.
    unsafe { *attr = a };
    0
}

/// Releases from 62 on: the rate of the port in steps of 100 Mb/s.
pub unsafe extern "C" fn query_port_speed(
    context: *mut IbvContext,
    port: u32,
    speed: *mut u64,
) -> c_int {
    if port != 1 {
        return libc::EINVAL;
    }
    // SAFETY: a context of ours, and the program's word.
    unsafe { *speed = Ctx::of(context).link_mbps / 100 };
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_mtu_leaves_room_for_headers() {
        assert_eq!(active_mtu(1500), 3, "1024");
        assert_eq!(active_mtu(9000), 5);
        assert_eq!(active_mtu(4096 + 111), 5);
        assert_eq!(active_mtu(4096 + 110), 4);
        assert_eq!(active_mtu(100), 1);
    }

    #[test]
    fn rates_are_never_named_higher_than_they_are() {
        assert_eq!(width_and_speed(100_000), (2, 32), "4 lanes of 25 Gb/s");
        assert_eq!(width_and_speed(99_999), (16, 32), "2 lanes of 25 Gb/s");
        assert_eq!(width_and_speed(10_000), (1, 4));
        assert_eq!(width_and_speed(1_000), (1, 1));
        assert!(RATES.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn identity_of_a_tree() {
        use crate::tree::{build_tree, CardInfo};
        let root = std::env::temp_dir().join(format!("metaroce-id-{}", std::process::id()));
        let card = CardInfo {
            index: 0,
            name: "metaroce0".into(),
            guid: 0x024d_52ff_fe00_0001,
            mac: [2, 0x4d, 0x52, 0, 0, 1],
            ipv4: [10, 0, 0, 1],
            mtu: 4200,
            rate_mbps: 25_000,
        };
        build_tree(
            &root,
            std::slice::from_ref(&card),
            Path::new("/nonexistent"),
        )
        .unwrap();
        let id = identity(&root.join("class/infiniband/metaroce0"));
        assert_eq!((id.guid, id.link_mtu), (card.guid, 4200));
        assert_eq!(id.link_mbps, 25_000);
        assert_eq!(id.gids[..3], card.gids());
        assert_eq!(id.gids[3..], [[0; 16]; GIDS - 3]);
        std::fs::remove_dir_all(&root).unwrap();
    }
}
