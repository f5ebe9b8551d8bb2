//! Properties of the capability graph: what must stay true of who holds what, however the manifest changes.

use std::collections::BTreeSet;

use capos_schema::manifest::Manifest;
use capos_service_graph::FIRST;

use crate::check::{Result, interface};
use crate::error::ManifestError;
use crate::source::{INIT, KERNEL};
use crate::text::Property;

/// Groups of holders, by the word that stands for them.
const GROUPS: &[&str] = &["services", "programs", "profiles"];
/// What the kernel's first process grants with arguments.
const HARDWARE: &[&str] = &["ports", "interrupts", "power-off"];
/// What stands behind the name of a capability whose read-only form is meant.
const READ_ONLY: &str = " read-only";

/// Checks all properties that are stated.
///
/// # Errors
/// The first that does not hold, with who breaks it by what; one that names what there is not.
pub fn check(file: &str, properties: &[Property], manifest: &Manifest) -> Result<()> {
    let graph = Graph::new(manifest);
    for (index, property) in properties.iter().enumerate() {
        let place = format!("property[{index}] \"{}\"", property.says);
        graph.check(property).map_err(|reason| ManifestError::new(file, place, reason))?;
    }
    Ok(())
}

/// A capability that somebody holds.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Held {
    provider: String,
    what: String,
    read_only: bool,
}

impl Held {
    fn new(from: &str, read_only: bool) -> Self {
        let (provider, what) = from.split_once('.').unwrap_or(("", from));
        Self { provider: provider.to_owned(), what: what.to_owned(), read_only }
    }
}

impl std::fmt::Display for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}.{}{}`", self.provider, self.what, if self.read_only { READ_ONLY } else { "" })
    }
}

/// A capability as a property names it: `SERVICE.INTERFACE`, `kernel.OBJECT`, or an interface of whoever provides it.
struct Named<'a> {
    provider: Option<&'a str>,
    what: &'a str,
    read_only: bool,
}

impl<'a> Named<'a> {
    fn new(name: &'a str) -> Self {
        let (name, read_only) = name.strip_suffix(READ_ONLY).map_or((name, false), |name| (name, true));
        match name.split_once('.') {
            Some((provider, what)) => Self { provider: Some(provider), what, read_only },
            None => Self { provider: None, what: name, read_only },
        }
    }

    fn is_of(&self, held: &Held) -> bool {
        self.provider.is_none_or(|provider| provider == held.provider) && self.what == held.what
    }

    /// Whether it is this one, in the form that is named.
    fn is(&self, held: &Held) -> bool {
        self.is_of(held) && self.read_only == held.read_only
    }

    /// Whether who may hold it may hold this one: the read-only form is less.
    fn covers(&self, held: &Held) -> bool {
        self.is_of(held) && (held.read_only || !self.read_only)
    }
}

/// Something that is held, and through whom: the services that are called on the way to it.
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

/// Who holds what.
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
                let held = process.grants.iter().map(|grant| Held::new(&grant.from, grant.read_only)).collect();
                holders.push((group, process.name.clone(), held));
            }
        }
        for profile in &manifest.profiles {
            let held = profile.grants.iter().map(|grant| Held::new(&grant.held, grant.read_only)).collect();
            holders.push(("profiles", format!("profile.{}", profile.profile.name()), held));
        }
        Self { holders, manifest }
    }

    fn check(&self, property: &Property) -> std::result::Result<(), String> {
        for name in property.of.iter().flatten().chain(&property.but) {
            self.knows_holder(name)?;
        }
        let lists = [&property.never, &property.apart, &property.only];
        if lists.iter().filter(|list| list.is_some()).count() != 1 {
            return Err("it says one of `never`, `apart` and `only`".to_owned());
        }
        for name in lists.into_iter().flatten().flatten() {
            self.knows_capability(name)?;
        }
        for (group, name, held) in &self.holders {
            let is = |word: &String| word == group || word == name;
            let later = *group != "profiles" && property.among.as_ref().is_some_and(|among| !among.contains(name));
            let meant = property.of.as_ref().is_none_or(|of| of.iter().any(is)) && !property.but.iter().any(is);
            if meant
                && !later
                && let Some(broken) = Self::broken(property, &self.reached(held, property.reach))
            {
                return Err(format!("`{name}` {broken}"));
            }
        }
        Ok(())
    }

    /// How somebody breaks a property with what it holds.
    fn broken(property: &Property, reached: &[Reached]) -> Option<String> {
        let verb = if property.reach { "reaches" } else { "holds" };
        let find = |name: &String| reached.iter().find(|reached| Named::new(name).is(&reached.held));
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

    /// What is held, and with `far` what the services that are called for it hold, and so on. The first process is not
    /// followed: it holds everything, and what it does for others is its own decision.
    fn reached(&self, held: &[Held], far: bool) -> Vec<Reached> {
        let mut all: Vec<Reached> =
            held.iter().map(|held| Reached { held: held.clone(), through: Vec::new() }).collect();
        let mut seen = BTreeSet::new();
        let mut at = 0;
        while far && let Some(Reached { held, through }) = all.get(at) {
            at = at.saturating_add(1);
            let service = self.holders.iter().find(|(group, name, _)| *group == "services" && *name == held.provider);
            let Some((_, name, theirs)) = service else { continue };
            if !seen.insert(name) {
                continue;
            }
            let through: Vec<String> = through.iter().chain([name]).cloned().collect();
            all.extend(theirs.iter().map(|held| Reached { held: held.clone(), through: through.clone() }));
        }
        all
    }

    fn knows_holder(&self, name: &str) -> std::result::Result<(), String> {
        if GROUPS.contains(&name) || self.holders.iter().any(|(_, holder, _)| holder == name) {
            return Ok(());
        }
        Err(format!("there is no `{name}`; it names {}, a service, a program or profile.NAME", GROUPS.join(", ")))
    }

    fn knows_capability(&self, name: &str) -> std::result::Result<(), String> {
        let named = Named::new(name);
        let known = match named.provider {
            None => interface(named.what).is_some(),
            Some("kernel") => {
                HARDWARE.contains(&named.what) || KERNEL.iter().any(|(object, _, _)| *object == named.what)
            }
            Some(FIRST) => named.what == "PciFunction" || INIT.contains(&named.what),
            Some(provider) => self.manifest.services.iter().any(|service| {
                service.name == provider && service.provides.iter().any(|provided| provided.name == named.what)
            }),
        };
        if known {
            return Ok(());
        }
        Err(format!(
            "nobody provides `{name}`; it names SERVICE.INTERFACE, kernel.OBJECT or an interface of the schema"
        ))
    }
}
