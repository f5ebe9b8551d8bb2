//! The state of the machine and its services.

use alloc::rc::Rc;
use alloc::vec::Vec;

use capos_schema::cap::{CallContext, CallError};
use capos_schema::kernel::MachineStatistics;
use capos_schema::system::{ServiceInfo, ServiceState, SystemStatusServer, SystemStatusSummaryResults};

use crate::system::System;

/// Bytes of a frame.
const FRAME: u64 = 4096;

/// The system's status.
pub struct Status(pub Rc<System>);

impl SystemStatusServer for Status {
    async fn summary(&self, _cx: &CallContext) -> Result<SystemStatusSummaryResults, CallError> {
        let info = self.0.hardware.machine.info().await?;
        let statistics = self.0.hardware.machine.statistics().await?;
        let running = self.0.services.iter().filter(|service| service.state() == ServiceState::Running).count();
        Ok(SystemStatusSummaryResults {
            time_unix: self.0.clock.wall_clock().map_or(0, |now| i64::try_from(now / 1000).unwrap_or_default()),
            uptime_seconds: self.0.clock.now() / 1_000_000_000,
            memory_bytes: info.memory_bytes,
            free_bytes: statistics.free_frames.saturating_mul(FRAME),
            processors: info.processors,
            processes: statistics.processes,
            services: u32::try_from(running).unwrap_or(u32::MAX),
        })
    }

    async fn services(&self, _cx: &CallContext) -> Result<Vec<ServiceInfo>, CallError> {
        let mut infos = Vec::new();
        for service in &self.0.services {
            infos.push(service.info().await);
        }
        Ok(infos)
    }

    async fn statistics(&self, _cx: &CallContext) -> Result<MachineStatistics, CallError> {
        self.0.hardware.machine.statistics().await
    }
}
