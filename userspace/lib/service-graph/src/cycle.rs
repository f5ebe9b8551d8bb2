//! Services that call each other in a cycle.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use capos_schema::manifest::{GrantSource, Service};

/// The state of the search at a service.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    /// On the path from the start of the search.
    OnTheWay,
    /// No cycle leads through it.
    Done,
}

/// A dependency cycle: services each of which holds a grant of the next, with the first repeated at the end. Services
/// that call each other so could wait for each other for ever.
#[must_use]
pub fn cycle(services: &[Service]) -> Option<Vec<String>> {
    let places: BTreeMap<&str, usize> =
        services.iter().enumerate().map(|(place, service)| (service.name.as_str(), place)).collect();
    let calls: Vec<Vec<usize>> = services
        .iter()
        .map(|service| {
            let providers = service.grants.iter().filter_map(|grant| match &grant.source {
                GrantSource::Service(source) => places.get(source.service.as_str()).copied(),
                _ => None,
            });
            providers.collect()
        })
        .collect();
    let mut marks = vec![Mark::New; services.len()];
    for start in 0..services.len() {
        // The path from the start, each with the number of its calls that were followed. A list, and not this
        // function's own recursion: the manifest decides how long it gets.
        let mut way = vec![(start, 0_usize)];
        while let Some((place, followed)) = way.last_mut() {
            let Some(mark) = marks.get_mut(*place).filter(|mark| **mark != Mark::Done) else {
                way.pop();
                continue;
            };
            *mark = Mark::OnTheWay;
            let Some(next) = calls.get(*place).and_then(|calls| calls.get(*followed)).copied() else {
                *mark = Mark::Done;
                way.pop();
                continue;
            };
            *followed = followed.saturating_add(1);
            if marks.get(next) == Some(&Mark::OnTheWay) {
                let round = way.iter().map(|(place, _)| *place).skip_while(|place| *place != next).chain([next]);
                return Some(round.filter_map(|place| Some(services.get(place)?.name.clone())).collect());
            }
            way.push((next, 0));
        }
    }
    None
}
