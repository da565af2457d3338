//! Named configurations of the card. Const-generic parameters of the RTL come from here.

use crate::regs::admin;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    pub name: &'static str,
    /// Data path bits: 512 or 64.
    pub bus_bits: u32,
    /// Core clock in kHz.
    pub clock_khz: u32,
    /// Line rate in Mb/s.
    pub line_mbps: u32,
    pub log_qp: u32,
    pub log_mr: u32,
    pub log_cq: u32,
    pub log_pd: u32,
    /// log2 of 64-byte send WQE slots per QP.
    pub log_sq_slots: u32,
    /// log2 of receive WQE slots per QP.
    pub log_rq_slots: u32,
    /// log2 of bus words of the receive packet buffer.
    pub log_rx_words: u32,
    /// log2 of bus words of the transmit packet buffer.
    pub log_tx_words: u32,
    /// log2 of MTT cache lines (8 page entries each), per direction.
    pub log_mtt_lines: u32,
    /// log2 of payload read tags.
    pub log_tags: u32,
    pub max_rd: u32,
    /// SGEs per work request.
    pub max_sge: u32,
    /// log2 of PASIDs (host processes at a time).
    pub log_pasid: u32,
    /// CMP_SWAP and FETCH_ADD, as requester and as responder.
    pub atomics: bool,
    /// Queue pairs, commands and rings in hardware; without, the card has raw packet queues only, and no table but those of its PASIDs.
    pub transport: bool,
}

pub const SIM_100G: Config = Config {
    name: "sim-100g",
    bus_bits: 512,
    clock_khz: 322_266,
    line_mbps: 100_000,
    log_qp: 11,
    log_mr: 13,
    log_cq: 10,
    log_pd: 8,
    log_sq_slots: 5,
    log_rq_slots: 4,
    log_rx_words: 12,
    log_tx_words: 12,
    log_mtt_lines: 9,
    log_tags: 6,
    max_rd: 16,
    max_sge: 16,
    log_pasid: 6,
    atomics: true,
    transport: true,
};

pub const ECP5_1G: Config = Config {
    name: "ecp5-1g",
    bus_bits: 64,
    clock_khz: 62_500,
    line_mbps: 1_000,
    log_qp: 4,
    log_mr: 6,
    log_cq: 5,
    log_pd: 5,
    log_sq_slots: 3,
    log_rq_slots: 2,
    log_rx_words: 12,
    log_tx_words: 12,
    log_mtt_lines: 4,
    log_tags: 4,
    max_rd: 4,
    max_sge: 16,
    log_pasid: 4,
    // 6,000 LUT4s of a part that holds 83,640
    atomics: false,
    transport: true,
};

/// A card that moves frames between host memory and wire, and makes and checks the ICRC; the transport runs in software above it.
pub const MINI: Config = Config {
    name: "mini",
    log_qp: 0,
    log_mr: 0,
    log_cq: 0,
    log_pd: 0,
    log_sq_slots: 0,
    log_rq_slots: 0,
    log_rx_words: 12,
    log_tx_words: 10,
    log_mtt_lines: 0,
    log_tags: 6,
    max_rd: 0,
    max_sge: 0,
    atomics: false,
    transport: false,
    ..SIM_100G
};

pub const ALL: &[&Config] = &[&SIM_100G, &ECP5_1G, &MINI];

impl Config {
    /// What register FEATURES says.
    pub const fn features(&self) -> u32 {
        if !self.transport {
            return admin::FEATURE_RAW;
        }
        let none = if self.atomics {
            0
        } else {
            admin::FEATURE_ATOMICS
        };
        admin::FEATURES_ALL & !none & !admin::FEATURE_RAW
    }

    /// Refuses combinations that can't work, with the reason.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.bus_bits != 512 && self.bus_bits != 64 {
            return Err("bus_bits must be 512 or 64: the header stage is built for these widths");
        }
        if !self.transport {
            return self.check_raw();
        }
        if self.log_qp < 2 || self.log_qp > 12 {
            return Err("log_qp must be 2..=12: the QP index is 12 bits");
        }
        if self.log_mr > 16 || self.log_cq > 12 {
            return Err("log_mr must be <= 16 and log_cq <= 12: table indices are 16 and 12 bits");
        }
        if self.max_rd == 0 || self.max_rd > 16 {
            return Err("max_rd must be 1..=16: the READ responder holds 16 jobs a QP");
        }
        if self.max_sge == 0 || self.max_sge > 16 {
            return Err("max_sge must be 1..=16: a receive entry is at most four 64-byte units");
        }
        if self.log_rq_slots < 2 {
            return Err("log_rq_slots must be >= 2: a receive entry takes up to 4 units");
        }
        if self.log_sq_slots < 3 {
            return Err("log_sq_slots must be >= 3: a WQE takes up to 5 units");
        }
        self.check_sizes()
    }

    /// Without transport.
    fn check_raw(&self) -> Result<(), &'static str> {
        if self.bus_bits != 512 {
            return Err("bus_bits must be 512 without transport: a slot of a raw ring is a whole number of bus words");
        }
        if self.atomics || self.log_qp + self.log_mr + self.log_cq + self.log_pd != 0 {
            return Err("without transport there are no atomics and no tables");
        }
        if self.log_pasid > 6 {
            return Err("log_pasid must be <= 6 without transport: the PASID is in the QPN, above 18 bits that its process chooses");
        }
        self.check_sizes()
    }

    /// Buffers, tags and rates.
    fn check_sizes(&self) -> Result<(), &'static str> {
        let frame_words = 4096 / (self.bus_bits / 8) + 4;
        if (1u32 << self.log_rx_words) < 4 * frame_words
            || (1u32 << self.log_tx_words) < 4 * frame_words
        {
            return Err("packet buffers must hold at least four frames of MTU 4096");
        }
        if self.log_rx_words + (self.bus_bits / 8).ilog2() > 20 {
            return Err(
                "log_rx_words + log2(bus bytes) must be <= 20: a buffer address is 20 bits",
            );
        }
        if self.log_tags > 7 {
            return Err("log_tags must be <= 7: payload read tags are 0x00..0x7F");
        }
        if self.log_pasid > 11 {
            return Err("log_pasid must be <= 11: the last doorbell pages of the BAR are the window onto the ROM");
        }
        if self.bus_bits as u64 * self.clock_khz as u64 * 100 < self.line_mbps as u64 * 112 * 1000 {
            return Err(
                "bus_bits * clock must exceed the line rate by 12 %: partial beats cost that much",
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn named_configurations_are_legal() {
        for c in ALL {
            c.check().unwrap_or_else(|e| panic!("{}: {e}", c.name));
        }
        assert!(Config {
            bus_bits: 512,
            clock_khz: 200_000,
            ..SIM_100G
        }
        .check()
        .is_err());
    }
}
