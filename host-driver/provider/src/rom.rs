//! The capability manifest in the card's ROM: a copy for whoever asks, `metaroce caps show rom:DEVICE` among them.
//!
//! Opening a card reads the registers that sum the manifest up (FEATURES and the limits), not the ROM: some thousand register reads are too
//! slow for every program that opens a device. Both come from the same configuration.

use crate::card::{Card, Errno};
use metaroce_hdl_spec::regs::{admin, BAR_BITS, ROM_MAX};

/// Names the file that gets the image when a device is opened.
const ENV: &str = "METAROCE_ROM";

/// The image, as long as the card says.
pub fn image(card: &dyn Card) -> Result<Vec<u8>, String> {
    let dead = |e: Errno| format!("the card does not answer (errno {e})");
    let bytes = card.register(admin::ROM_BYTES).map_err(dead)?;
    let from = card.register(admin::ROM_OFFSET).map_err(dead)?;
    if bytes == 0 {
        return Err("the card has no ROM with a capability manifest".into());
    }
    if bytes > ROM_MAX
        || from
            .checked_add(bytes)
            .is_none_or(|end| end > 1 << BAR_BITS)
        || from % 4 != 0
    {
        return Err(format!(
            "the card's registers ROM_OFFSET ({from:#x}) and ROM_BYTES ({bytes}) are not those of a ROM"
        ));
    }
    let mut image = Vec::with_capacity(bytes as usize + 3);
    for at in (from..from + bytes).step_by(4) {
        image.extend(card.register(at).map_err(dead)?.to_le_bytes());
    }
    image.truncate(bytes as usize);
    Ok(image)
}

/// Writes the image to the file that the environment names.
pub fn copy_if_asked(card: &dyn Card) -> Result<(), String> {
    let Some(file) = std::env::var_os(ENV) else {
        return Ok(());
    };
    let image = image(card)?;
    std::fs::write(&file, image).map_err(|e| format!("{ENV}: {}: {e}", file.display()))
}
