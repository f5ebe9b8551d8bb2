//! The capabilities of sessions, by profile.

use std::collections::BTreeMap;

use capos_abi::Rights;
use capos_policy::{Category, Modes};
use capos_schema::authority::Profile;
use capos_schema::manifest::{CategoryMode, Service, SessionGrant, SessionProfile};
use capos_schema::models::PermissionMode;

use crate::check::{Checker, Result, interface, no_interface};
use crate::source::{DIRECTORY, HOMES, ISSUER, NEVER_IN_SESSIONS};
use crate::text::{self, Grant, Process};

/// Names of what the broker itself gives a session, so that no grant may take them.
const RESERVED: &[&str] =
    &["approvals", "audit_writer", "backups", "child_runs", "conversations", "reminders", "settings", "setup", "users"];

/// The capabilities that the issuer of sessions holds to pass on: the place that asks for it first, by
/// `SERVICE.INTERFACE`.
type Held = BTreeMap<String, String>;

impl Checker<'_> {
    /// The service that issues sessions.
    pub(crate) fn issuer(&self) -> Option<&Process> {
        self.document.service.iter().find(|process| process.provides.iter().any(|name| name == ISSUER))
    }

    /// The profiles, and the capabilities that their issuer has to hold for them.
    pub(crate) fn profiles(&self) -> Result<(Vec<SessionProfile>, Held)> {
        let (mut profiles, mut held) = (Vec::new(), Held::new());
        if let Some(unknown) = self.document.profile.keys().find(|name| Profile::from_name(name).is_none()) {
            let known: Vec<&str> = Profile::ALL.iter().map(|profile| profile.name()).collect();
            let reason = format!("there is no such profile; the profiles are {}", known.join(", "));
            return Err(self.error(format!("profile.{unknown}"), reason));
        }
        if self.issuer().is_none() {
            if let Some(name) = self.document.profile.keys().next() {
                let reason = format!("no service provides {ISSUER}, so nobody issues sessions");
                return Err(self.error(format!("profile.{name}"), reason));
            }
            return Ok((profiles, held));
        }
        for profile in Profile::ALL.iter().copied() {
            let here = format!("profile.{}", profile.name());
            let Some(section) = self.document.profile.get(profile.name()) else {
                return Err(self.error(here, "it is missing; say what its sessions hold, `grants = []` for nothing"));
            };
            let Some(wanted) = &section.grants else {
                return Err(self.error(format!("{here}.grants"), "it is missing; `grants = []` is for nothing"));
            };
            let mut grants: Vec<SessionGrant> = Vec::new();
            for (at, grant) in wanted.iter().enumerate() {
                let there = format!("{here}.grants[{at}] `{}`", grant.name);
                let taken = grants.iter().any(|other| other.name == grant.name);
                if grant.name.is_empty() || taken || RESERVED.contains(&grant.name.as_str()) {
                    return Err(self.error(there, "each grant of a session needs a name of its own"));
                }
                let found = self.session_grant(&there, grant)?;
                if let Some(other) = grants.iter().find(|other| other.interface == found.interface) {
                    let reason = format!(
                        "`{}` has the same interface; the tools of a session are named by it, so each is there once",
                        other.name
                    );
                    return Err(self.error(format!("{there}.from"), reason));
                }
                // The issuer gets each principal's own.
                if !found.of_principal {
                    held.entry(found.held.clone()).or_insert(there);
                }
                grants.push(found);
            }
            profiles.push(SessionProfile { profile, grants, modes: self.modes(&here, section)? });
        }
        Ok((profiles, held))
    }

    fn session_grant(&self, there: &str, grant: &Grant) -> Result<SessionGrant> {
        let Some((provider, name)) = grant.from.split_once('.') else {
            return Err(self.error(format!("{there}.from"), format!("`{}` is not SERVICE.INTERFACE", grant.from)));
        };
        if provider == "kernel" || NEVER_IN_SESSIONS.contains(&name) {
            let reason = format!(
                "no session is granted `{}`: its holder could bypass the broker or the audit log, or the broker gives it itself",
                grant.from
            );
            return Err(self.error(format!("{there}.from"), reason));
        }
        self.provided(there, provider, name)?;
        self.no_others(there, grant, None)?;
        let read_only = self.read_only(there, grant, name)?;
        let interface = interface(name).ok_or_else(|| self.error(format!("{there}.from"), no_interface(name)))?;
        Ok(SessionGrant {
            name: grant.name.clone(),
            held: grant.from.clone(),
            interface,
            rights: self.rights(there, grant, Rights::ALL)?.0,
            read_only,
            of_principal: self.is_of_principals(provider, name),
        })
    }

    /// Whether each principal has their own of what a service provides.
    pub(crate) fn is_of_principals(&self, provider: &str, name: &str) -> bool {
        let provider = self.document.service.iter().find(|service| service.name == provider);
        name == DIRECTORY && provider.is_some_and(|service| service.provides.iter().any(|name| name == HOMES))
    }

    fn modes(&self, here: &str, section: &text::Profile) -> Result<Vec<CategoryMode>> {
        let here = format!("{here}.modes");
        for (name, mode) in &section.modes {
            if Category::from_name(name).is_none() {
                let known: Vec<&str> = Category::ALL.iter().map(|category| category.name()).collect();
                let reason = format!("there is no such category; the categories are {}", known.join(", "));
                return Err(self.error(format!("{here}.{name}"), reason));
            }
            if PermissionMode::from_name(mode).is_none() {
                let known: Vec<&str> = PermissionMode::ALL.iter().map(|mode| mode.name()).collect();
                let reason = format!("there is no mode `{mode}`; the modes are {}", known.join(", "));
                return Err(self.error(format!("{here}.{name}"), reason));
            }
        }
        let wanted =
            |category: Category| section.modes.get(category.name()).and_then(|name| PermissionMode::from_name(name));
        let modes = Modes::new(wanted)
            .map_err(|(category, reason)| self.error(format!("{here}.{}", category.name()), reason))?;
        let all = Category::ALL.iter();
        Ok(all
            .map(|&category| CategoryMode { category: category.name().to_owned(), mode: modes.of(category) })
            .collect())
    }

    /// Gives the issuer of sessions the capabilities that it passes on, each as `SERVICE.INTERFACE`.
    pub(crate) fn hand_on(&mut self, index: usize, process: &Process, service: &mut Service, held: Held) -> Result<()> {
        for (from, there) in held {
            if service.grants.iter().any(|grant| grant.name == from) {
                let place = format!("service[{index}] `{}`.grants `{from}`", process.name);
                return Err(self.error(place, "the profiles give it a grant of this name"));
            }
            let wanted = Grant { name: from.clone(), from, ..Grant::default() };
            service.grants.push(self.grant(process, &there, &wanted)?);
        }
        Ok(())
    }
}
