//! The capability manifest in the ROM of one of our cards, read through its own registers by its own driver.

use metaroce_manifest::Error;
use std::process::Command;

/// The image that the driver finds when it opens the device.
pub fn image(device: &str) -> Result<Vec<u8>, Error> {
    let dir =
        tempfile::tempdir().map_err(|e| Error::Unreadable(format!("no temporary folder: {e}")))?;
    let file = dir.path().join("rom");
    let out = Command::new("ibv_devinfo")
        .args(["-d", device])
        .env("LC_ALL", "C")
        .env("METAROCE_ROM", &file)
        .output()
        .map_err(|e| {
            Error::Unreadable(format!(
                "can't start ibv_devinfo (package ibverbs-utils): {e}"
            ))
        })?;
    std::fs::read(&file).map_err(|_| {
        let text = [out.stderr, out.stdout].concat();
        let text = String::from_utf8_lossy(&text);
        let said = text.lines().find(|l| !l.trim().is_empty());
        Error::Unreadable(match said {
            Some(_) if out.status.success() => {
                format!("{device} is no MetaRoCE card: its driver knows no ROM")
            }
            _ => format!(
                "ibv_devinfo: {}. Simulated cards exist within `metaroce run` and `metaroce env`",
                said.unwrap_or("says nothing").trim()
            ),
        })
    })
}
