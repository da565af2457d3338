//! Folders that nobody else prepared: programs load libraries from them, and in `/tmp` anybody may make a folder of any name.

use anyhow::{anyhow, bail, Context, Result};
use std::{
    fs::{self, File},
    io::ErrorKind,
    os::{
        fd::AsRawFd,
        unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    },
    path::{Path, PathBuf},
};

fn euid() -> u32 {
    // SAFETY: no arguments, can't fail.
    unsafe { libc::geteuid() }
}

/// Name of the folder of this user's cards in the background.
pub fn background_name() -> String {
    format!("metaroce-up-{}", euid())
}

/// mkdir with mode 0700; fails when anything of that name is there, be it a link.
pub fn make(path: &Path) -> std::io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(path)
}

/// Makes `base`/`prefix`-<random>, which nobody can have foreseen.
pub fn make_random(base: &Path, prefix: &str) -> Result<PathBuf> {
    for _ in 0..100 {
        let mut b = [0u8; 8];
        // SAFETY: room for eight bytes; a short request is never interrupted.
        let n = unsafe { libc::getrandom(b.as_mut_ptr().cast(), b.len(), 0) };
        anyhow::ensure!(n == 8, "the operating system has no randomness");
        let path = base.join(format!("{prefix}-{:016x}", u64::from_le_bytes(b)));
        match make(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(anyhow!("can't make {}: {e}", path.display())),
        }
    }
    bail!("can't make a folder in {}", base.display())
}

/// Whether `path` is there; an error unless it is a real folder of this user with mode 0700.
pub fn check(path: &Path) -> Result<bool> {
    let m = match fs::symlink_metadata(path) {
        Ok(m) => m,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(anyhow!("can't look at {}: {e}", path.display())),
    };
    let why = if !m.is_dir() {
        "it is not a folder".into()
    } else if m.uid() != euid() {
        format!("it belongs to user {}, not to you ({})", m.uid(), euid())
    } else if m.mode() & 0o777 != 0o700 {
        format!(
            "its mode is {:04o}, not 0700: others may write into it or read it",
            m.mode() & 0o777
        )
    } else {
        return Ok(true);
    };
    bail!(
        "{} is not used: {why}. Programs would load libraries from it. Remove it (its owner or root can), or let XDG_RUNTIME_DIR name a folder of your own",
        path.display()
    )
}

/// A folder as a lock: held until dropped.
pub struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // SAFETY: an open descriptor. Closing it would do the same, unless a child still had a copy.
        unsafe { libc::flock(self.0.as_raw_fd(), libc::LOCK_UN) };
    }
}

/// Waits until nobody else holds the folder `path`; makes it if there is none and `create`. None: there is none.
pub fn lock(path: &Path, create: bool) -> Result<Option<Lock>> {
    loop {
        if !check(path)? {
            if !create {
                return Ok(None);
            }
            match make(path) {
                Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                    return Err(e).with_context(|| format!("can't make {}", path.display()))
                }
                _ => continue,
            }
        }
        let opened = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY | libc::O_NOFOLLOW)
            .open(path);
        let f = match opened {
            Ok(f) => f,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(e).with_context(|| format!("can't open {}", path.display())),
        };
        // SAFETY: an open descriptor.
        while unsafe { libc::flock(f.as_raw_fd(), libc::LOCK_EX) } != 0 {
            let e = std::io::Error::last_os_error();
            if e.kind() != ErrorKind::Interrupted {
                return Err(e).with_context(|| format!("can't lock {}", path.display()));
            }
        }
        // The one who held it may have removed it: then another may be there by now.
        let held = f.metadata()?;
        let same = fs::symlink_metadata(path)
            .is_ok_and(|m| (m.dev(), m.ino()) == (held.dev(), held.ino()));
        if same && check(path)? {
            return Ok(Some(Lock(f)));
        }
    }
}

/// Removes what is in a folder.
pub fn empty(path: &Path) -> Result<()> {
    for e in fs::read_dir(path)?.flatten() {
        let p = e.path();
        let r = if e.file_type()?.is_dir() {
            fs::remove_dir_all(&p)
        } else {
            fs::remove_file(&p)
        };
        r.with_context(|| format!("can't remove {}", p.display()))?;
    }
    Ok(())
}

/// Removes the folder of cards that have ended. Where others could take its name (`/tmp`) it stays, empty: shells with
/// the variables of `metaroce env` still name it.
pub fn retire(path: &Path) {
    let _ = empty(path);
    let alone = path
        .parent()
        .and_then(|p| fs::metadata(p).ok())
        .is_some_and(|m| m.uid() == euid() && m.mode() & 0o022 == 0);
    if alone {
        let _ = fs::remove_dir(path);
    }
}

/// Removes a tree only if it is a real folder of this user.
pub fn remove_own(path: &Path) {
    if fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == euid()) {
        let _ = fs::remove_dir_all(path);
    }
}
