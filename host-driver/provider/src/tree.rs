//! The directory that makes a simulated card visible: a small sysfs and `/dev/infiniband`, with the host's real RDMA
//! devices linked in beside ours. The launch shim maps the real paths here.
//!
//! Our devices are `uverbs100` and up: a clash with the kernel's `uverbs0` would hide the real device.
use metaroce_hdl_spec::addr;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// First uverbs number that we use.
pub const FIRST_UVERBS: u32 = 100;

/// Entries of a card's GID table (`cmd::set_gid::index` has 4 bits); those without a GID read zero, as the kernel shows it.
pub const GIDS: usize = 16;

/// What the tree says of one card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardInfo {
    /// 0, 1, ...: the card is `uverbs<100 + index>`.
    pub index: u32,
    /// Device name as verbs programs show it, e.g. `metaroce0`.
    pub name: String,
    /// Node GUID, host order: `0x024d52fffe000001` reads `024d:52ff:fe00:0001`.
    pub guid: u64,
    pub mac: [u8; 6],
    pub ipv4: [u8; 4],
    /// MTU of the Ethernet port in bytes.
    pub mtu: u32,
    /// Line rate.
    pub rate_mbps: u64,
}

impl CardInfo {
    pub fn uverbs(&self) -> String {
        format!("uverbs{}", FIRST_UVERBS + self.index)
    }

    pub fn gids(&self) -> [[u8; 16]; 3] {
        addr::gids(self.mac, self.ipv4, self.index as u16)
    }
}

fn gid_text(gid: &[u8; 16]) -> String {
    let words: Vec<String> = gid
        .chunks(2)
        .map(|w| format!("{:02x}{:02x}", w[0], w[1]))
        .collect();
    words.join(":")
}

fn guid_text(guid: u64) -> String {
    format!(
        "{:04x}:{:04x}:{:04x}:{:04x}",
        guid >> 48,
        guid >> 32 & 0xffff,
        guid >> 16 & 0xffff,
        guid & 0xffff
    )
}

/// Builds the tree below `root`, replacing one from an earlier run. `real_sys` is the host's `/sys`; its RDMA devices
/// are linked in, so that a program sees them as well. The provider library goes to `root/lib` and is not touched here.
pub fn build_tree(root: &Path, cards: &[CardInfo], real_sys: &Path) -> io::Result<()> {
    for old in ["class", "dev"] {
        match fs::remove_dir_all(root.join(old)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    for dir in [
        "class/infiniband",
        "class/infiniband_verbs",
        "class/misc",
        "dev/infiniband",
        "lib",
    ] {
        fs::create_dir_all(root.join(dir))?;
    }
    write(root, "class/infiniband_verbs/abi_version", "6")?;
    for card in cards {
        add_card(root, card)?;
    }
    add_cm(root)?;
    link_all(
        &real_sys.join("class/infiniband"),
        &root.join("class/infiniband"),
        "",
    )?;
    link_all(
        &real_sys.join("class/infiniband_verbs"),
        &root.join("class/infiniband_verbs"),
        "uverbs",
    )?;
    link_all(
        Path::new("/dev/infiniband"),
        &root.join("dev/infiniband"),
        "",
    )
}

/// The connection manager's device. The name is there for those who look; the launch shim answers for what is opened.
fn add_cm(root: &Path) -> io::Result<()> {
    write(root, "class/misc/rdma_cm/abi_version", "4")?;
    write(root, "class/misc/rdma_cm/dev", "10:58")?;
    symlink("/dev/full", root.join("dev/infiniband/rdma_cm"))
}

fn write(dir: &Path, name: &str, value: &str) -> io::Result<()> {
    let path = dir.join(name);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, format!("{value}\n"))
}

fn add_card(root: &Path, card: &CardInfo) -> io::Result<()> {
    let uverbs = card.uverbs();
    let dir = root.join("class/infiniband_verbs").join(&uverbs);
    write(&dir, "ibdev", &card.name)?;
    write(&dir, "abi_version", "1")?;
    // /dev/full: a command that nobody handles fails there instead of "succeeding" with garbage.
    write(&dir, "dev", "1:7")?;
    symlink("/dev/full", root.join("dev/infiniband").join(&uverbs))?;

    let dir = root.join("class/infiniband").join(&card.name);
    for (name, value) in [
        ("node_type", "1: CA".to_string()),
        ("node_guid", guid_text(card.guid)),
        ("sys_image_guid", guid_text(card.guid)),
        ("node_desc", card.name.clone()),
        ("fw_ver", env!("CARGO_PKG_VERSION").to_string()),
        ("hw_rev", "0x1".to_string()),
        ("hca_type", "MetaRoCE".to_string()),
        ("board_id", "METAROCE_SIM".to_string()),
        ("device/numa_node", "-1".to_string()),
    ] {
        write(&dir, name, &value)?;
    }
    let port = dir.join("ports/1");
    for (name, value) in [
        ("state", "4: ACTIVE"),
        ("phys_state", "5: LinkUp"),
        ("link_layer", "Ethernet"),
        ("lid", "0x0"),
        ("sm_lid", "0x0"),
        ("lid_mask_count", "0"),
        ("sm_sl", "0"),
        ("cap_mask", "0x04010000"),
        (
            "rate",
            &format!("{} Gb/sec", card.rate_mbps as f64 / 1000.0),
        ),
        ("pkeys/0", "0xffff"),
    ] {
        write(&port, name, value)?;
    }
    // Not a kernel file: the provider derives the path MTU from it.
    write(&port, "mtu", &card.mtu.to_string())?;
    let gids = card.gids();
    for i in 0..GIDS {
        let gid = gids.get(i);
        write(
            &port,
            &format!("gids/{i}"),
            &gid_text(gid.unwrap_or(&[0; 16])),
        )?;
        // The kernel's file cannot be read for an empty entry, which libibverbs takes for this type.
        let kind = gid.map_or("IB/RoCE v1", |_| "RoCE v2");
        write(&port, &format!("gid_attrs/types/{i}"), kind)?;
        if gid.is_some() {
            write(&port, &format!("gid_attrs/ndevs/{i}"), "lo")?;
        }
    }
    // libibverbs and NCCL look for the device from the uverbs side as well.
    symlink(
        format!("../../infiniband/{}/device", card.name),
        root.join("class/infiniband_verbs")
            .join(&uverbs)
            .join("device"),
    )
}

/// Links every entry of `from` whose name begins with `prefix` into `to`; names already there are ours and stay.
fn link_all(from: &Path, to: &Path, prefix: &str) -> io::Result<()> {
    let entries = match fs::read_dir(from) {
        Ok(e) => e,
        // No RDMA on this host.
        Err(_) => return Ok(()),
    };
    for entry in entries {
        let name = entry?.file_name();
        if !name.to_string_lossy().starts_with(prefix) {
            continue;
        }
        match symlink(from.join(&name), to.join(&name)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(index: u32) -> CardInfo {
        CardInfo {
            index,
            name: format!("metaroce{index}"),
            guid: 0x024d_52ff_fe00_0001 + index as u64,
            mac: [0x02, 0x4d, 0x52, 0, 0, 1 + index as u8],
            ipv4: [10, 0, 0, 1 + index as u8],
            mtu: 9000,
            rate_mbps: 100_000,
        }
    }

    #[test]
    fn gid_table() {
        let g = card(1).gids();
        assert_eq!(gid_text(&g[0]), "fe80:0000:0000:0000:004d:52ff:fe00:0002");
        assert_eq!(gid_text(&g[1]), "0000:0000:0000:0000:0000:ffff:0a00:0002");
        assert_eq!(gid_text(&g[2]), "fd00:0000:0000:0000:0000:0000:0000:0002");
    }

    #[test]
    fn tree_lists_our_cards_and_the_real_devices() {
        let root = std::env::temp_dir().join(format!("metaroce-tree-{}", std::process::id()));
        let sys = root.join("sys");
        fs::create_dir_all(sys.join("class/infiniband/mlx5_0")).unwrap();
        fs::create_dir_all(sys.join("class/infiniband_verbs/uverbs0")).unwrap();
        fs::write(sys.join("class/infiniband_verbs/abi_version"), "6\n").unwrap();
        let tree = root.join("tree");
        for _ in 0..2 {
            build_tree(&tree, &[card(0), card(1)], &sys).unwrap();
        }
        let read = |p: &str| fs::read_to_string(tree.join(p)).unwrap();
        assert_eq!(
            read("class/infiniband_verbs/uverbs101/ibdev"),
            "metaroce1\n"
        );
        assert_eq!(
            read("class/infiniband/metaroce0/node_guid"),
            "024d:52ff:fe00:0001\n"
        );
        assert_eq!(
            read("class/infiniband/metaroce1/ports/1/gid_attrs/types/2"),
            "RoCE v2\n"
        );
        assert_eq!(
            read("class/infiniband/metaroce0/ports/1/rate"),
            "100 Gb/sec\n"
        );
        assert!(tree.join("class/infiniband/mlx5_0").is_dir());
        assert_eq!(
            read("class/infiniband/metaroce1/ports/1/gids/15"),
            "0000:0000:0000:0000:0000:0000:0000:0000\n"
        );
        assert_eq!(GIDS, 1 << metaroce_hdl_spec::cmd::set_gid::index.width);
        assert!(tree.join("class/infiniband_verbs/uverbs0").is_dir());
        assert!(
            !fs::symlink_metadata(tree.join("class/infiniband_verbs/abi_version"))
                .unwrap()
                .is_symlink()
        );
        assert_eq!(
            fs::read_link(tree.join("dev/infiniband/uverbs100")).unwrap(),
            Path::new("/dev/full")
        );
        fs::remove_dir_all(&root).unwrap();
    }
}
