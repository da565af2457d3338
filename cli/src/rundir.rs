//! Where things lie: build products, the folder of a run, the temporary tree that makes cards visible.

use crate::{private, SimArgs};
use anyhow::{anyhow, bail, Context, Result};
use metaroce::{
    layout::SUFFIXES,
    tree::{build_tree, CardInfo},
};
use metaroce_cm::Cm;
use metaroce_tb::{server::Control, sim::CardId};
use std::{
    env, fs,
    os::unix::{fs::symlink, net::UnixStream},
    path::{Path, PathBuf},
};

/// The two libraries that programs load, beside this executable.
pub struct Libraries {
    pub provider: PathBuf,
    pub shim: PathBuf,
}

impl Libraries {
    pub fn find() -> Result<Libraries> {
        let exe = env::current_exe().context("where is this program?")?;
        let dir = exe.parent().expect("an executable has a folder");
        let need = |name: &str| {
            let p = dir.join(name);
            if p.exists() {
                Ok(p)
            } else {
                bail!(
                    "{} is missing: start with ./metaroce, which builds it",
                    p.display()
                )
            }
        };
        Ok(Libraries {
            provider: need("libmetaroce.so")?,
            shim: need("libmetaroce_shim.so")?,
        })
    }
}

/// Folder for results: `$METAROCE_RUN_DIR`, else `target/metaroce` beside the build, else below the current folder.
pub fn results() -> PathBuf {
    if let Some(d) = env::var_os("METAROCE_RUN_DIR").filter(|d| !d.is_empty()) {
        return d.into();
    }
    let exe = env::current_exe().ok();
    // target/release/metaroce
    match exe.as_deref().and_then(Path::parent).and_then(Path::parent) {
        Some(t) if t.join("CACHEDIR.TAG").exists() => t.join("metaroce"),
        _ => PathBuf::from("target/metaroce"),
    }
}

/// Why a file or folder of a run could not be made, and what to do.
pub fn cant(what: &str, path: &Path, e: &std::io::Error) -> anyhow::Error {
    let full = matches!(e.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
    let hint = if full { "is the disk full? " } else { "" };
    anyhow!(
        "can't {what} {}: {e} ({hint}METAROCE_RUN_DIR can name another folder for results)",
        path.display()
    )
}

/// A new numbered folder for a run; two runs at once get two.
pub fn new_run() -> Result<PathBuf> {
    let base = results();
    fs::create_dir_all(&base).map_err(|e| cant("make", &base, &e))?;
    let mut n = fs::read_dir(&base)?
        .filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u64>().ok())
        .max()
        .unwrap_or(0);
    loop {
        n += 1;
        let d = base.join(n.to_string());
        match fs::create_dir(&d) {
            // absolute: programs of the run may work in another folder
            Ok(()) => return fs::canonicalize(&d).map_err(|e| cant("find", &d, &e)),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(cant("make", &d, &e)),
        }
    }
}

/// Temporary folder with the tree that the launch shim shows; removed when dropped. It lies in a short path, because
/// a unix socket's name holds 107 bytes.
pub struct Root {
    pub path: PathBuf,
    keep: bool,
}

/// Base of temporary trees: `$XDG_RUNTIME_DIR`, else `/tmp`.
pub fn runtime_base() -> PathBuf {
    env::var_os("XDG_RUNTIME_DIR")
        .map(PathBuf::from)
        .filter(|p| p.is_dir())
        .unwrap_or_else(|| PathBuf::from("/tmp"))
}

/// Tree of the cards in the background of this user. An error when something of that name is there that may not be used.
pub fn background_root() -> Result<PathBuf> {
    let path = runtime_base().join(private::background_name());
    private::check(&path)?;
    Ok(path)
}

impl Root {
    pub fn temporary() -> Result<Root> {
        let base = runtime_base();
        sweep(&base);
        let path = private::make_random(&base, &format!("{RUN}{}", std::process::id()))?;
        Ok(Root { path, keep: false })
    }
    /// The folder of the cards in the background, which exists.
    pub fn background(path: PathBuf) -> Root {
        Root { path, keep: true }
    }
    pub fn socket(&self) -> PathBuf {
        self.path.join("cardd.sock")
    }
    /// Builds the device tree and links the provider under every name that libibverbs may ask for.
    pub fn populate(&self, cards: usize, rate_mbps: u64) -> Result<()> {
        let libs = Libraries::find()?;
        let infos = infos(cards, rate_mbps);
        build_tree(&self.path, &infos, Path::new("/sys"))
            .with_context(|| format!("can't build the device tree in {}", self.path.display()))?;
        for s in SUFFIXES {
            // A copy, not a link: the provider looks at its own name to see that libibverbs loaded it.
            let copy = self.path.join(format!("lib/libmetaroce-rdmav{s}.so"));
            fs::copy(&libs.provider, &copy)
                .with_context(|| format!("can't make {} (is the disk full?)", copy.display()))?;
        }
        Ok(())
    }
    /// The connection manager of these cards, for programs with librdmacm.
    pub fn connections(&self, a: &SimArgs, c: &Control) -> Result<Cm> {
        let (path, c) = (self.path.join(metaroce_cm::SOCKET), c.clone());
        let up = move |k| !c.links_down().contains(&k);
        Cm::start(&path, infos(a.cards as usize, a.rate * 1000), a.seed(), up)
            .with_context(|| format!("can't serve {}", path.display()))
    }
    /// Environment of a program that is to see the cards.
    pub fn environment(&self) -> Result<Vec<(String, String)>> {
        let libs = Libraries::find()?;
        let shim = libs.shim.display().to_string();
        // LD_PRELOAD splits at spaces and colons: go through a link without them.
        let shim = if shim.contains([' ', ':']) {
            let link = self.path.join("lib/shim.so");
            let _ = fs::remove_file(&link);
            symlink(&libs.shim, &link)?;
            link.display().to_string()
        } else {
            shim
        };
        let preload = match env::var("LD_PRELOAD") {
            Ok(p) if p.split([' ', ':']).any(|x| x == shim) => p,
            Ok(p) if !p.is_empty() => format!("{shim}:{p}"),
            _ => shim,
        };
        let root = self.path.display().to_string();
        Ok(vec![
            ("METAROCE_SOCK".into(), self.socket().display().to_string()),
            ("RDMAV_DRIVERS".into(), format!("{root}/lib/libmetaroce")),
            ("METAROCE_ROOT".into(), root),
            ("LD_PRELOAD".into(), preload),
        ])
    }
}

/// Trees of runs are named by this, the process, and a random number.
const RUN: &str = "metaroce-";

/// The process in the name of a run's tree.
fn pid_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix(RUN)?;
    let (pid, random) = rest.split_once('-').unwrap_or((rest, "0"));
    u64::from_str_radix(random, 16).ok()?;
    pid.parse().ok()
}

/// Removes trees of runs that were killed: nobody is behind their sockets, or they have none and are old.
fn sweep(base: &Path) {
    for e in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = e.file_name();
        let Some(pid) = name.to_str().and_then(pid_of) else {
            continue;
        };
        // A live one refuses with another error: the socket is of another type.
        let r = UnixStream::connect(e.path().join("cardd.sock"));
        let over = match r.map_err(|e| e.kind()) {
            Err(std::io::ErrorKind::ConnectionRefused) => true,
            // Killed before it listened; not one that is about to, perhaps in another container.
            Err(std::io::ErrorKind::NotFound) => {
                let age = e
                    .metadata()
                    .ok()
                    .and_then(|m| m.modified().ok()?.elapsed().ok());
                !Path::new(&format!("/proc/{pid}")).exists()
                    && age.is_some_and(|a| a.as_secs() > 60)
            }
            _ => false,
        };
        if over {
            private::remove_own(&e.path());
        }
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if !self.keep {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// What programs are told of the cards.
fn infos(cards: usize, rate_mbps: u64) -> Vec<CardInfo> {
    (0..cards)
        .map(|k| info(&CardId::new(k), rate_mbps))
        .collect()
}

fn info(id: &CardId, rate_mbps: u64) -> CardInfo {
    CardInfo {
        index: id.index as u32,
        name: format!("metaroce{}", id.index),
        guid: u64::from_be_bytes(metaroce_hdl_spec::addr::eui64(id.mac)),
        mac: id.mac,
        ipv4: id.ipv4,
        mtu: 9000,
        rate_mbps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn names_of_runs() {
        assert_eq!(pid_of("metaroce-12-00ff"), Some(12));
        // earlier versions had no random number
        assert_eq!(pid_of("metaroce-12"), Some(12));
        for other in ["metaroce-up-12", "metaroce-x-1", "metaroce-12-x", "mrt-1"] {
            assert_eq!(pid_of(other), None, "{other}");
        }
    }
}
