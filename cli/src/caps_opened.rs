//! What the driver of one of our cards finds and decides when it opens the device: the manifest in the card's ROM, and who does what. The driver
//! writes both to files that its environment names; `ibv_devinfo` is the program that opens the device.

use metaroce_manifest::Error;
use serde::{Deserialize, Serialize};
use std::process::Command;

/// Who does what, as the driver decided when it opened the device.
#[derive(Deserialize, Serialize)]
pub struct Decisions {
    pub device: String,
    pub decisions: Vec<Decision>,
}

#[derive(Deserialize, Serialize)]
pub struct Decision {
    pub capability: String,
    /// "present" or "absent".
    pub card: String,
    /// "hardware", "software" or "none".
    pub chosen: String,
    pub why: String,
}

/// The image of the manifest in the ROM.
pub fn image(device: &str) -> Result<Vec<u8>, Error> {
    opened(device, "METAROCE_ROM", "its driver knows no ROM")
}

pub fn decisions(device: &str) -> Result<Decisions, Error> {
    let text = opened(
        device,
        "METAROCE_HCE_REPORT",
        "its driver decides nothing of this kind",
    )?;
    serde_json::from_slice(&text)
        .map_err(|e| Error::Malformed(format!("what the driver of {device} decided: {e}")))
}

/// The file that the driver writes when `variable` names it. `no`: why there is none if the device can be opened.
fn opened(device: &str, variable: &str, no: &str) -> Result<Vec<u8>, Error> {
    let dir =
        tempfile::tempdir().map_err(|e| Error::Unreadable(format!("no temporary folder: {e}")))?;
    let file = dir.path().join("said");
    let out = Command::new("ibv_devinfo")
        .args(["-d", device])
        .env("LC_ALL", "C")
        .env(variable, &file)
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
            Some(_) if out.status.success() => format!("{device} is no MetaRoCE card: {no}"),
            _ => format!(
                "ibv_devinfo: {}. Simulated cards exist within `metaroce run` and `metaroce env`",
                said.unwrap_or("says nothing").trim()
            ),
        })
    })
}
