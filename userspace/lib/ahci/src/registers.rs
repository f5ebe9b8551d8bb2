//! The registers of a controller and their bits, by the names of AHCI 1.3.1, section 3. All have 32 bits.

/// Host capabilities.
pub const CAP: u64 = 0x00;
/// CAP: the controller reaches addresses of 64 bits.
pub const CAP_S64A: u32 = 1 << 31;
/// CAP: drives spin up on request.
pub const CAP_SSS: u32 = 1 << 27;
/// Global host control.
pub const GHC: u64 = 0x04;
/// GHC: AHCI is spoken.
pub const GHC_AE: u32 = 1 << 31;
/// GHC: interrupts are raised.
pub const GHC_IE: u32 = 1 << 1;
/// GHC: reset; 0 again when that is done.
pub const GHC_HR: u32 = 1;
/// Ports with an interrupt, a bit each; cleared by writing ones.
pub const IS: u64 = 0x08;
/// Implemented ports, a bit each.
pub const PI: u64 = 0x0c;
/// Host capabilities, extended.
pub const CAP2: u64 = 0x24;
/// CAP2: the firmware hands the controller over when it is asked to.
pub const CAP2_BOH: u32 = 1;
/// Hand-over from the firmware.
pub const BOHC: u64 = 0x28;
/// BOHC: the firmware has work to end first.
pub const BOHC_BB: u32 = 1 << 4;
/// BOHC: the system asks for the controller.
pub const BOHC_OOS: u32 = 1 << 1;
/// BOHC: the firmware owns the controller.
pub const BOHC_BOS: u32 = 1;

/// Ports at most.
pub const PORTS: u32 = 32;
/// Where the registers of the first port begin.
const FIRST_PORT: u64 = 0x100;
/// Bytes of a port's registers.
const PORT: u64 = 0x80;

/// Where the registers of a port begin.
#[must_use]
pub const fn port(number: u32) -> u64 {
    // A number of 32 bits times 128 has 39.
    FIRST_PORT.wrapping_add((number as u64).wrapping_mul(PORT))
}

/// Address of the command list.
pub const PX_CLB: u64 = 0x00;
/// Its upper half.
pub const PX_CLBU: u64 = 0x04;
/// Address of received data.
pub const PX_FB: u64 = 0x08;
/// Its upper half.
pub const PX_FBU: u64 = 0x0c;
/// Events; cleared by writing ones.
pub const PX_IS: u64 = 0x10;
/// Which of that interrupts.
pub const PX_IE: u64 = 0x14;
/// PxIS: the drive has reported an error.
pub const PX_IS_TFES: u32 = 1 << 30;
/// PxIS: the controller could not reach memory.
pub const PX_IS_HBFS: u32 = 1 << 29;
/// PxIS: data in memory were bad.
pub const PX_IS_HBDS: u32 = 1 << 28;
/// PxIS: the line to the drive failed, fatally.
pub const PX_IS_IFS: u32 = 1 << 27;
/// PxIS: the drive was taken away, or came.
pub const PX_IS_PRCS: u32 = 1 << 22;
/// PxIS: the same, reported by the drive.
pub const PX_IS_PCS: u32 = 1 << 6;
/// PxIS: a command's data could be transferred, and other progress.
pub const PX_IS_PROGRESS: u32 = 0x2f;
/// PxIS: errors after which a port must be restarted.
pub const PX_IS_FATAL: u32 = PX_IS_HBFS | PX_IS_HBDS | PX_IS_IFS;
/// Command and status.
pub const PX_CMD: u64 = 0x18;
/// PxCMD: the link is active.
pub const PX_CMD_ICC_ACTIVE: u32 = 1 << 28;
/// PxCMD: the list of commands runs.
pub const PX_CMD_CR: u32 = 1 << 15;
/// PxCMD: receiving runs.
pub const PX_CMD_FR: u32 = 1 << 14;
/// PxCMD: data from the drive are received.
pub const PX_CMD_FRE: u32 = 1 << 4;
/// PxCMD: the drive has power.
pub const PX_CMD_POD: u32 = 1 << 2;
/// PxCMD: the drive spins up.
pub const PX_CMD_SUD: u32 = 1 << 1;
/// PxCMD: commands are processed.
pub const PX_CMD_ST: u32 = 1;
/// The drive's status (bits 0 to 7) and error (8 to 15).
pub const PX_TFD: u64 = 0x20;
/// PxTFD: the drive is busy.
pub const PX_TFD_BSY: u32 = 1 << 7;
/// PxTFD: the drive cannot go on.
pub const PX_TFD_DF: u32 = 1 << 5;
/// PxTFD: the drive wants to transfer.
pub const PX_TFD_DRQ: u32 = 1 << 3;
/// PxTFD: an error, or a packet command with sense data.
pub const PX_TFD_ERR: u32 = 1;
/// The kind of drive.
pub const PX_SIG: u64 = 0x24;
/// PxSIG: a disk.
pub const PX_SIG_ATA: u32 = 0x0000_0101;
/// PxSIG: a drive that takes packets.
pub const PX_SIG_ATAPI: u32 = 0xeb14_0101;
/// State of the line.
pub const PX_SSTS: u64 = 0x28;
/// PxSSTS: whether there is a drive.
pub const PX_SSTS_DET: u32 = 0xf;
/// PxSSTS.DET: there is one, and the line to it is up.
pub const PX_SSTS_DET_UP: u32 = 3;
/// Control of the line.
pub const PX_SCTL: u64 = 0x2c;
/// PxSCTL: the request to the link.
pub const PX_SCTL_DET: u32 = 0xf;
/// PxSCTL.DET: reset.
pub const PX_SCTL_DET_RESET: u32 = 1;
/// Errors of the line; cleared by writing ones.
pub const PX_SERR: u64 = 0x30;
/// Commands that were issued, a bit each; cleared by the controller.
pub const PX_CI: u64 = 0x38;

#[cfg(test)]
mod tests {
    #[test]
    fn ports_lie_one_after_the_other() {
        assert_eq!((super::port(0), super::port(1), super::port(31)), (0x100, 0x180, 0x1080));
    }
}
