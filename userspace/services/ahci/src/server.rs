//! The drives as a `DiskController`.

use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;

use capos_block_server::Device;
use capos_rt::Server;
use capos_schema::cap::{CallContext, CallError, Client};
use capos_schema::storage::{BlockDeviceClient, DiskControllerServer, Drive as DriveInfo};

use crate::drive::Drive;

/// The drives of the controller, served.
pub struct Drives {
    drives: Vec<Rc<Device<Drive>>>,
    server: Rc<Server>,
}

impl Drives {
    /// Serves these.
    pub fn new(drives: Vec<Rc<Device<Drive>>>, server: Rc<Server>) -> Self {
        Self { drives, server }
    }

    /// The one at a port. Ports are what stays the same when the driver is started again.
    pub fn find(&self, port: u64) -> Option<Rc<Device<Drive>>> {
        self.drives.iter().find(|device| u64::from(device.disk().port()) == port).cloned()
    }
}

impl DiskControllerServer for Drives {
    async fn drives(&self, _cx: &CallContext) -> Result<Vec<DriveInfo>, CallError> {
        let info = |device: &Rc<Device<Drive>>| DriveInfo {
            port: device.disk().port(),
            model: device.disk().model().into(),
            optical: device.disk().is_optical(),
        };
        Ok(self.drives.iter().map(info).collect())
    }

    async fn open(&self, _cx: &CallContext, port: u32) -> Result<BlockDeviceClient, CallError> {
        let device = self.find(port.into());
        let device = device.ok_or_else(|| CallError::invalid_argument(format!("port {port} has no drive")))?;
        device.disk().open().await?;
        let cap = self.server.durable(port.into(), BlockDeviceClient::INTERFACE_ID)?;
        Ok(BlockDeviceClient::from_cap(cap))
    }
}
