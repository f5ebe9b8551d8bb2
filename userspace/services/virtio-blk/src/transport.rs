//! The library's PCI transport, plus what it leaves out: message-signalled interrupts.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use virtio_drivers::transport::pci::PciTransport;
use virtio_drivers::transport::{DeviceStatus, DeviceType, InterruptStatus, Transport};
use virtio_drivers::{PhysAddr, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offsets in the common configuration (virtio 1.2, section 4.1.4.3).
const CONFIG_VECTOR: usize = 0x10;
const QUEUE_SELECT: usize = 0x16;
const QUEUE_VECTOR: usize = 0x1a;
/// How often the device is asked whether its reset is done: a second's worth, since each time takes a microsecond or more.
const RESET_READS: u32 = 1_000_000;
/// "No vector".
const NO_VECTOR: u16 = 0xffff;

/// A transport whose queues raise MSI-X vector 0.
pub struct MessageTransport {
    /// Never dropped: the library waits for the device's reset then, for ever if the device does not do it.
    inner: ManuallyDrop<PciTransport>,
    common: NonNull<u8>,
}

impl MessageTransport {
    /// Wraps the transport.
    ///
    /// # Safety
    /// `common` must be the device's common configuration, mapped for the life of the process.
    pub unsafe fn new(inner: PciTransport, common: NonNull<u8>) -> Self {
        Self { inner: ManuallyDrop::new(inner), common }
    }

    /// Resets the device: it reaches no memory after that. Whether it is done.
    pub fn reset(&mut self) -> bool {
        self.inner.set_status(DeviceStatus::empty());
        (0..RESET_READS).any(|_| self.inner.get_status().is_empty())
    }

    fn write16(&mut self, offset: usize, value: u16) {
        // SAFETY: `new`'s caller promised that the common configuration is mapped; the offsets lie in it, 2-aligned.
        unsafe { self.common.add(offset).cast::<u16>().write_volatile(value) }
    }

    fn read16(&self, offset: usize) -> u16 {
        // SAFETY: as in `write16`.
        unsafe { self.common.add(offset).cast::<u16>().read_volatile() }
    }

    /// Whether the device took the vector for the queue.
    pub fn vector_taken(&mut self, queue: u16) -> bool {
        self.write16(QUEUE_SELECT, queue);
        self.read16(QUEUE_VECTOR) != NO_VECTOR
    }
}

impl Transport for MessageTransport {
    fn device_type(&self) -> DeviceType {
        self.inner.device_type()
    }

    fn read_device_features(&mut self) -> u64 {
        self.inner.read_device_features()
    }

    fn write_driver_features(&mut self, driver_features: u64) {
        self.inner.write_driver_features(driver_features);
    }

    fn max_queue_size(&mut self, queue: u16) -> u32 {
        self.inner.max_queue_size(queue)
    }

    fn notify(&mut self, queue: u16) {
        self.inner.notify(queue);
    }

    fn get_status(&self) -> DeviceStatus {
        self.inner.get_status()
    }

    fn set_status(&mut self, status: DeviceStatus) {
        self.inner.set_status(status);
    }

    fn set_guest_page_size(&mut self, guest_page_size: u32) {
        self.inner.set_guest_page_size(guest_page_size);
    }

    fn requires_legacy_layout(&self) -> bool {
        self.inner.requires_legacy_layout()
    }

    fn queue_set(
        &mut self,
        queue: u16,
        size: u32,
        descriptors: PhysAddr,
        driver_area: PhysAddr,
        device_area: PhysAddr,
    ) {
        self.write16(CONFIG_VECTOR, NO_VECTOR);
        self.write16(QUEUE_SELECT, queue);
        self.write16(QUEUE_VECTOR, 0);
        self.inner.queue_set(queue, size, descriptors, driver_area, device_area);
    }

    fn queue_unset(&mut self, queue: u16) {
        self.inner.queue_unset(queue);
    }

    fn queue_used(&mut self, queue: u16) -> bool {
        self.inner.queue_used(queue)
    }

    fn ack_interrupt(&mut self) -> InterruptStatus {
        self.inner.ack_interrupt()
    }

    fn read_config_generation(&self) -> u32 {
        self.inner.read_config_generation()
    }

    fn read_config_space<T: FromBytes + IntoBytes>(&self, offset: usize) -> Result<T> {
        self.inner.read_config_space(offset)
    }

    fn write_config_space<T: IntoBytes + Immutable>(&mut self, offset: usize, value: T) -> Result<()> {
        self.inner.write_config_space(offset, value)
    }
}
