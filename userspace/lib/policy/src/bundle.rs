//! What one session may do, until when: the result of the settings for it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use capos_schema::annotations::Pattern;
use capos_schema::authority::{Profile, Risk};
use capos_schema::models::PermissionMode;
use capos_schema::storage::DirectoryClient;
use capos_schema::system::LauncherClient;
use capos_schema::transfer::TransferVolumesClient;
use sha2::{Digest, Sha256};

use crate::category::Category;
use crate::map::Permission;
use crate::profile::ModelAccess;
use crate::risk::{RiskRules, usual};
use crate::scope::Scope;
use crate::session::{GrantedTool, Policy};

/// The format of bundles that this version issues and accepts.
pub const FORMAT: u32 = 1;
/// The name of the capability to ask a model.
pub const MODEL_CALL: &str = "LLM.Call";

/// The methods of a directory with a tool that handles no file's content.
const WITHOUT_CONTENT: [&str; 6] = ["list", "stat", "remove", "makeDirectory", "moveFile", "findFiles"];
/// Bytes of the largest file that a search of a directory reads.
pub const MAX_SEARCHED: usize = 256 << 10;
/// Bytes of the largest file that a comparison of two files reads.
pub const MAX_COMPARED: usize = 64 << 10;
/// The methods of a directory with a tool that reads more files than one, and bytes of the largest that each of them reads.
const OF_MANY_FILES: [(&str, u64); 2] = [("searchText", MAX_SEARCHED as u64), ("compareFiles", MAX_COMPARED as u64)];

/// A scope, and where it was configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundBy {
    pub scope: Scope,
    pub source: String,
}

/// One entry of a bundle: a tool that may be called, within its scopes and with the approval that its mode asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// The name under which it is advertised.
    pub name: String,
    pub interface_id: u64,
    pub method: String,
    pub category: Category,
    /// The argument by which calls may be agreed to together.
    pub pattern: Option<(&'static str, Pattern)>,
    /// Its arguments that are paths in the home directory.
    pub paths: &'static [&'static str],
    /// Those of them with which a call reads or moves everything below, too.
    pub trees: &'static [&'static str],
    /// All of them must hold.
    pub scopes: Vec<BoundBy>,
    /// The approval that its calls take.
    pub permission: Permission,
    /// The mode of a call of it that loses data.
    pub destroys: PermissionMode,
    /// Where its mode was configured.
    pub source: String,
    /// The risk of its calls, before their arguments are looked at.
    pub risk: Risk,
}

impl Capability {
    /// Of a tool of a session of this profile.
    #[must_use]
    pub fn of(policy: &Policy, profile: Profile, tool: GrantedTool) -> Self {
        let GrantedTool { interface_id, method, name, category, pattern, paths, trees } = tool;
        let (permission, source) = policy.permission(profile, category, &method, &name);
        let (destroys, _) = policy.permission(profile, Category::Destructive, &method, &name);
        let capability = Self {
            interface_id,
            category,
            pattern,
            paths,
            trees,
            scopes: Vec::new(),
            permission,
            destroys: destroys.mode,
            source,
            risk: usual(category),
            name,
            method,
        };
        let bounds = policy.scopes.iter().filter_map(|rule| {
            let scope = rule.scope_for(profile, &capability)?;
            Some(BoundBy { scope, source: rule.source.clone() })
        });
        let bounds = bounds.collect();
        Self { scopes: bounds, ..capability }
    }

    /// Whether its calls run a program of the manifest.
    #[must_use]
    pub fn runs_programs(&self) -> bool {
        self.interface_id == LauncherClient::INTERFACE_ID && self.category != Category::ReadOnly
    }

    /// Whether its calls reach a network.
    #[must_use]
    pub fn reaches_network(&self) -> bool {
        self.category == Category::Outbound
    }

    /// Whether it is a method of a directory, where an empty path is the directory itself.
    #[must_use]
    pub fn is_of_directory(&self) -> bool {
        self.interface_id == DirectoryClient::INTERFACE_ID
    }

    /// Whether its calls read, write or copy the content of a file that they name. A tool that is not known does.
    #[must_use]
    pub fn handles_content(&self) -> bool {
        let is_without = self.is_of_directory() && WITHOUT_CONTENT.contains(&self.method.as_str());
        !self.paths.is_empty() && !is_without
    }

    /// Bytes of the largest file that its calls read, if they read more files than one whose size can be looked up.
    #[must_use]
    pub fn reads_up_to(&self) -> Option<u64> {
        let (_, bytes) =
            OF_MANY_FILES.into_iter().find(|(method, _)| self.is_of_directory() && *method == self.method)?;
        Some(bytes)
    }

    /// Whether its calls write a text of their arguments.
    #[must_use]
    pub fn writes_text(&self) -> bool {
        self.is_of_directory() && self.method == "writeText"
    }

    /// Whether its calls copy a file of a transfer volume into the home directory.
    #[must_use]
    pub fn imports(&self) -> bool {
        self.interface_id == TransferVolumesClient::INTERFACE_ID && self.method == "importFile"
    }

    /// Everything that it says, as a line.
    fn line(&self) -> String {
        let Self { name, interface_id, method, category, permission, destroys, risk, .. } = self;
        let (category, mode, destroys, risk) = (category.name(), permission.mode.name(), destroys.name(), risk.name());
        let suppressed = permission.suppressed;
        let bounds: Vec<String> = self.scopes.iter().flat_map(|bound| bound.scope.lines(self)).collect();
        format!("{name:?} {interface_id:x} {method:?} {category} {mode} {destroys} {suppressed} {risk} {bounds:?}")
    }
}

/// Whose bundle it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub session: String,
    pub principal: String,
    pub profile: Profile,
}

/// The permissions of one session until a time. The broker makes it of the image's files and the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyBundle {
    pub format: u32,
    /// A digest of the permissions: two bundles with the same permissions have the same version, whoever holds them.
    pub version: String,
    pub holder: Holder,
    /// When it was issued, in nanoseconds since boot.
    pub issued: u64,
    /// First time at which it permits nothing.
    pub expires: u64,
    /// What is granted, by name.
    pub capabilities: Vec<Capability>,
    /// Which models may be asked: the scope of the capability [`MODEL_CALL`], which no session has without a model.
    pub model: ModelAccess,
}

/// Why a bundle is not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundleError {
    Format(u32),
    Version,
    Expired,
    FromTheFuture,
    OtherSession(String),
    OtherPrincipal(String),
    OtherProfile(Profile),
    Doubled(String),
}

impl fmt::Display for BundleError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format(format) => write!(
                formatter,
                "policy bundle: format: it has format {format}, and this version knows {FORMAT}; use a version that knows both"
            ),
            Self::Version => formatter.write_str(
                "policy bundle: version: it is not the digest of what the bundle permits; have the broker issue another",
            ),
            Self::Expired => {
                formatter.write_str("policy bundle: expires: it has expired; /resume asks the broker for another")
            }
            Self::FromTheFuture => formatter.write_str(
                "policy bundle: issued: it was issued later than now, so the clock went back; log in again",
            ),
            Self::OtherSession(session) => {
                write!(formatter, "policy bundle: session: it is of the session {session:?}; log in again")
            }
            Self::OtherPrincipal(principal) => {
                write!(formatter, "policy bundle: principal: it is of {principal:?}; log in again")
            }
            Self::OtherProfile(profile) => {
                write!(formatter, "policy bundle: profile: it is of {} sessions; log in again", profile.name())
            }
            Self::Doubled(name) => write!(
                formatter,
                "policy bundle: capabilities: there are two entries for {name:?}; give the two capabilities tools with other \
                 names"
            ),
        }
    }
}

impl core::error::Error for BundleError {}

impl PolicyBundle {
    /// What these settings permit a session that holds these tools, from `issued` until `expires`.
    #[must_use]
    pub fn issue(policy: &Policy, holder: Holder, (issued, expires): (u64, u64), tools: Vec<GrantedTool>) -> Self {
        let profile = holder.profile;
        let capabilities = tools.into_iter().map(|tool| Capability::of(policy, profile, tool)).collect();
        let model = policy.profile(profile).model;
        let mut bundle = Self { format: FORMAT, version: String::new(), holder, issued, expires, capabilities, model };
        bundle.version = bundle.digest(policy);
        bundle
    }

    /// The digest of what it permits: 128 bits in hexadecimal.
    pub(crate) fn digest(&self, policy: &Policy) -> String {
        let mut lines: Vec<String> = self.capabilities.iter().map(Capability::line).collect();
        lines.extend(RiskRules::of(&policy.risks, self.holder.profile).flat_map(RiskRules::lines));
        lines.sort();
        let profile = self.holder.profile.name();
        lines.push(format!("{FORMAT} {profile} {:?}", self.model));
        lines.push(format!("{:?} {:?}", policy.egress, policy.services));
        let digest = Sha256::digest(lines.join("\n").as_bytes());
        hex::encode(digest.get(..16).unwrap_or(&digest))
    }

    /// Whether it is for this holder, at this time.
    ///
    /// # Errors
    /// What is wrong, where, and what to do about it.
    pub(crate) fn check(&self, policy: &Policy, holder: &Holder, now: u64) -> Result<(), BundleError> {
        if self.format != FORMAT {
            return Err(BundleError::Format(self.format));
        }
        if self.holder.session != holder.session {
            return Err(BundleError::OtherSession(self.holder.session.clone()));
        }
        if self.holder.principal != holder.principal {
            return Err(BundleError::OtherPrincipal(self.holder.principal.clone()));
        }
        if self.holder.profile != holder.profile {
            return Err(BundleError::OtherProfile(self.holder.profile));
        }
        if now < self.issued {
            return Err(BundleError::FromTheFuture);
        }
        if now >= self.expires {
            return Err(BundleError::Expired);
        }
        if self.version != self.digest(policy) {
            return Err(BundleError::Version);
        }
        Ok(())
    }
}
