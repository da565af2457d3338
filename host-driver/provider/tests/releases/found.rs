//! Other rdma-core releases, unpacked beside the system: `cargo xtask releases` fetches them. Shared by the provider's
//! tests (on a software card) and those of the command line (on the simulated one).

use std::io::Write;
use std::path::{Path, PathBuf};

/// One unpacked distribution: its own loader and libraries, so that nothing of the system's libibverbs is used.
pub struct Release {
    /// Name of the folder: the distribution's.
    pub name: String,
    pub rdma_core: u32,
    root: PathBuf,
    loader: PathBuf,
    libraries: String,
}

impl Release {
    /// The command line of a program with this release's libraries; a relative path is inside the release.
    pub fn any(&self, program: &Path) -> Vec<String> {
        let text = |p: &Path| p.to_str().expect("paths are text").to_string();
        vec![
            text(&self.loader),
            "--library-path".into(),
            self.libraries.clone(),
            text(&self.root.join(program)),
        ]
    }
}

/// `libibverbs.so.1.14.44.0` -> 44
fn rdma_core(libraries: &[PathBuf]) -> Option<u32> {
    files(libraries).into_iter().find_map(|f| {
        let name = f.file_name()?.to_str()?.to_string();
        let version = name.strip_prefix("libibverbs.so.1.")?;
        version.split('.').nth(1)?.parse().ok()
    })
}

fn files(dirs: &[PathBuf]) -> Vec<PathBuf> {
    let list = |d: &PathBuf| std::fs::read_dir(d).ok();
    dirs.iter()
        .filter_map(list)
        .flatten()
        .filter_map(|e| Some(e.ok()?.path()))
        .collect()
}

fn open(root: PathBuf) -> Option<Release> {
    let triple = format!("{}-linux-gnu", std::env::consts::ARCH);
    let libraries = ["usr/lib", "lib"].map(|d| root.join(d).join(&triple));
    let loader = files(&libraries).into_iter().find(|f| {
        let name = f.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        name.starts_with("ld-linux-")
    })?;
    Some(Release {
        name: root.file_name()?.to_str()?.to_string(),
        rdma_core: rdma_core(&libraries)?,
        libraries: libraries.map(|d| d.display().to_string()).join(":"),
        loader,
        root,
    })
}

/// The releases in `$METAROCE_RELEASES`, else in `releases` of the target folder. Without any, says so where the test
/// runner does not hide it.
pub fn releases() -> Vec<Release> {
    let exe = std::env::current_exe().unwrap();
    // target/release/deps/test
    let beside = exe.ancestors().nth(3).unwrap().join("releases");
    let dir = std::env::var_os("METAROCE_RELEASES").map_or(beside, PathBuf::from);
    let mut found: Vec<_> = files(std::slice::from_ref(&dir))
        .into_iter()
        .filter_map(open)
        .collect();
    found.sort_by_key(|r| r.rdma_core);
    let what = match found.len() {
        0 => format!(
            "SKIPPED: no other rdma-core release in {}: `cargo xtask releases` fetches Debian's and runs these tests",
            dir.display()
        ),
        _ => format!(
            "other rdma-core releases: {}",
            found
                .iter()
                .map(|r| format!("{} ({})", r.rdma_core, r.name))
                .collect::<Vec<_>>()
                .join(", ")
        ),
    };
    let _ = writeln!(std::io::stderr(), "{what}");
    found
}
