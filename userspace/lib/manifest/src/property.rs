//! Properties of the capability graph: what must stay true of each process's capabilities, however the manifest
//! changes.

use std::collections::BTreeSet;

use capos_schema::manifest::{Grant, Manifest, SessionGrant};
use capos_service_graph::FIRST;

use crate::check::{Result, interface};
use crate::error::ManifestError;
use crate::source::{DEVICE, DIRECTORY, HARDWARE, INIT, KERNEL, READ_ONLY};
use crate::text::Property;

/// Groups of holders, by the word that stands for them.
pub const GROUPS: &[&str] = &["services", "programs", "profiles"];

/// Checks all properties that are stated.
///
/// # Errors
/// The first property that does not hold, with its violator and the capability; or one that names something absent.
pub fn check(file: &str, properties: &[Property], manifest: &Manifest) -> Result<()> {
    let graph = Graph::new(manifest);
    for (index, property) in properties.iter().enumerate() {
        let place = format!("property[{index}] \"{}\"", property.says);
        graph.check(property).map_err(|reason| ManifestError::new(file, place, reason))?;
    }
    Ok(())
}

/// A held capability: its name in the manifest, and its interface.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    from: String,
    interface: u64,
    read_only: bool,
}

impl Held {
    /// The service that it calls, or `kernel`.
    fn provider(&self) -> &str {
        self.from.split_once('.').map_or("", |(provider, _)| provider)
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}{}`", self.from, if self.read_only { READ_ONLY } else { "" })
    }
}

/// A capability as a property names it: `SERVICE.INTERFACE`, `kernel.OBJECT`, or an interface of any provider.
struct Named<'a> {
    name: &'a str,
    read_only: bool,
}

impl<'a> Named<'a> {
    fn new(name: &'a str) -> Self {
        let (name, read_only) = name.strip_suffix(READ_ONLY).map_or((name, false), |name| (name, true));
        Self { name, read_only }
    }

    fn is_of(&self, held: &Held) -> bool {
        held.from == self.name || interface(self.name) == Some(held.interface)
    }

    /// Whether what is held is this one or more: the read-only form is less than the whole.
    fn is_in(&self, held: &Held) -> bool {
        self.is_of(held) && (self.read_only || !held.read_only)
    }

    /// Whether a process that may hold this may hold `held`.
    fn covers(&self, held: &Held) -> bool {
        self.is_of(held) && (held.read_only || !self.read_only)
    }
}

/// A held capability, and the services that are called on the path to it.
struct Reached {
    held: Held,
    through: Vec<String>,
}

impl std::fmt::Display for Reached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.through.as_slice() {
            [] => write!(f, "{}", self.held),
            through => write!(f, "{} (through {})", self.held, through.join(", then ")),
        }
    }
}

/// The capabilities of each process.
struct Graph<'a> {
    /// By group, each in the order of the manifest; profiles as `profile.NAME`.
    holders: Vec<(&'static str, String, Vec<Held>)>,
    manifest: &'a Manifest,
}

impl<'a> Graph<'a> {
    fn new(manifest: &'a Manifest) -> Self {
        let mut holders = Vec::new();
        for (group, processes) in [("services", &manifest.services), ("programs", &manifest.programs)] {
            for process in processes {
                let held = process.grants.iter().map(|Grant { from, interface, read_only, .. }| Held {
                    from: from.clone(),
                    interface: *interface,
                    read_only: *read_only,
                });
                holders.push((group, process.name.clone(), held.collect()));
            }
        }
        for profile in &manifest.profiles {
            let held = profile.grants.iter().map(|SessionGrant { held, interface, read_only, .. }| Held {
                from: held.clone(),
                interface: *interface,
                read_only: *read_only,
            });
            holders.push(("profiles", format!("profile.{}", profile.profile.name()), held.collect()));
        }
        Self { holders, manifest }
    }

    fn check(&self, property: &Property) -> std::result::Result<(), String> {
        for name in property.of.iter().flatten().chain(&property.but) {
            self.knows_holder(name, property)?;
        }
        let stated = match (&property.never, &property.apart, &property.only) {
            (Some(never), None, None) if !never.is_empty() => never,
            (None, Some(apart), None) if apart.len() > 1 => apart,
            (None, None, Some(only)) => only,
            _ => return Err("give one of `never` (at least one name), `apart` (at least two) and `only`".to_owned()),
        };
        if property.of.as_ref().is_some_and(Vec::is_empty) {
            return Err("`of` is empty; leave it out to mean all".to_owned());
        }
        for name in stated {
            self.knows_capability(name)?;
        }
        for (group, name, held) in &self.holders {
            let is = |word: &String| word == group || word == name;
            let meant = property.of.as_ref().is_none_or(|of| of.iter().any(is)) && !property.but.iter().any(is);
            if meant
                && is_of_its_files(group, name, property)
                && let Some(broken) = Self::broken(property, &self.reached(held, property.reach))
            {
                return Err(format!("`{name}` {broken}"));
            }
        }
        Ok(())
    }

    /// How a holder violates a property.
    fn broken(property: &Property, reached: &[Reached]) -> Option<String> {
        let verb = if property.reach { "reaches" } else { "holds" };
        let find = |name: &String| reached.iter().find(|reached| Named::new(name).is_in(&reached.held));
        if let Some(never) = &property.never {
            return never.iter().find_map(find).map(|found| format!("{verb} {found}"));
        }
        if let Some(apart) = &property.apart {
            let all: Option<Vec<String>> = apart.iter().map(|name| find(name).map(Reached::to_string)).collect();
            return all.map(|all| format!("{verb} {}", all.join(" and ")));
        }
        let only: Vec<Named<'_>> = property.only.iter().flatten().map(|name| Named::new(name)).collect();
        let more = reached.iter().find(|reached| !only.iter().any(|named| named.covers(&reached.held)));
        more.map(|more| format!("{verb} {more} too"))
    }

    /// The held capabilities and, with `far`, those that the called services hold for them, and so on. The first
    /// process is not followed: it holds everything, and its actions for others are its own decision.
    fn reached(&self, held: &[Held], far: bool) -> Vec<Reached> {
        let mut all: Vec<Reached> =
            held.iter().map(|held| Reached { held: held.clone(), through: Vec::new() }).collect();
        let mut seen = BTreeSet::new();
        let mut at = 0;
        while far && let Some(Reached { held, through }) = all.get(at) {
            at = at.saturating_add(1);
            let service = self.holders.iter().find(|(group, name, _)| *group == "services" && name == held.provider());
            let Some((_, name, theirs)) = service else { continue };
            if !seen.insert(name) {
                continue;
            }
            let through: Vec<String> = through.iter().chain([name]).cloned().collect();
            all.extend(theirs.iter().map(|held| Reached { held: held.clone(), through: through.clone() }));
        }
        all
    }

    fn knows_holder(&self, name: &str, property: &Property) -> std::result::Result<(), String> {
        let is = |(group, holder, _): &(&str, String, _)| holder == name && is_of_its_files(group, holder, property);
        if GROUPS.contains(&name) || self.holders.iter().any(is) {
            return Ok(());
        }
        Err(format!("there is no `{name}`; it names {}, a service, a program or profile.NAME", GROUPS.join(", ")))
    }

    fn knows_capability(&self, name: &str) -> std::result::Result<(), String> {
        let Named { name, read_only } = Named::new(name);
        let (provider, what) = name.split_once('.').unwrap_or(("", name));
        let known = match provider {
            "" => interface(what).is_some(),
            "kernel" => {
                HARDWARE.iter().any(|(object, _)| *object == what)
                    || KERNEL.iter().any(|(object, _, _)| *object == what)
            }
            FIRST => what == DEVICE || INIT.contains(&what),
            provider => self.manifest.services.iter().any(|service| {
                service.name == provider && service.provides.iter().any(|provided| provided.name == what)
            }),
        };
        if !known {
            return Err(format!(
                "no service provides `{name}`; write SERVICE.INTERFACE, kernel.OBJECT or an interface of the schema"
            ));
        }
        if read_only && what != DIRECTORY {
            return Err(format!("`{name}` has no read-only form; a {DIRECTORY} has one"));
        }
        Ok(())
    }
}

/// Whether a property can be about a holder: a process of its own file, or of one before it, or a profile.
fn is_of_its_files(group: &str, name: &String, property: &Property) -> bool {
    group == "profiles" || property.among.as_ref().is_none_or(|among| among.contains(name))
}
