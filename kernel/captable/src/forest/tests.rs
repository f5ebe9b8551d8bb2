use super::*;
use proptest::prelude::*;

/// Nodes that are never forgotten, so that ancestry is read off directly.
#[derive(Default)]
struct Model {
    nodes: Vec<ModelNode>,
}

struct ModelNode {
    id: NodeId,
    parent: Option<usize>,
    attachment: bool,
    alive: bool,
}

impl Model {
    fn derives(&self, mut node: usize, ancestor: usize) -> bool {
        if self.nodes[node].attachment && self.nodes[node].parent == Some(ancestor) {
            return false;
        }
        while let Some(parent) = self.nodes[node].parent {
            if parent == ancestor {
                return true;
            }
            node = parent;
        }
        false
    }

    fn below(&self, ancestor: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|n| self.nodes[*n].alive && self.derives(*n, ancestor)).collect()
    }
}

proptest! {
    #[test]
    fn agrees_with_a_model_that_never_forgets(
        operations in prop::collection::vec((0_u8..8, any::<u16>()), 0..400),
    ) {
        let mut forest: Forest<usize> = Forest::new();
        let mut model = Model::default();
        for (operation, number) in operations {
            let picked = (!model.nodes.is_empty()).then(|| number as usize % model.nodes.len().max(1));
            let fresh = model.nodes.len();
            match (operation, picked) {
                (0, _) | (_, None) => {
                    let id = forest.insert_root(fresh).unwrap();
                    model.nodes.push(ModelNode { id, parent: None, attachment: false, alive: true });
                }
                (1..=3, Some(parent)) => {
                    let attachment = operation == 3;
                    let id = model.nodes[parent].id;
                    let added = if attachment { forest.attach(id, fresh) } else { forest.insert_child(id, fresh) };
                    if model.nodes[parent].alive && !model.nodes[parent].attachment {
                        let id = added.unwrap();
                        model.nodes.push(ModelNode { id, parent: Some(parent), attachment, alive: true });
                    } else {
                        prop_assert_eq!(added, Err(ForestError::Gone));
                    }
                }
                (4..=6, Some(node)) => {
                    let expected = model.nodes[node].alive.then_some(node);
                    prop_assert_eq!(forest.remove(model.nodes[node].id), expected);
                    model.nodes[node].alive = false;
                }
                (_, Some(node)) if model.nodes[node].alive => {
                    let mut expected = model.below(node);
                    let mut popped = Vec::new();
                    while let Some(holder) = forest.pop_descendant(model.nodes[node].id) {
                        popped.push(holder);
                    }
                    for dead in &popped {
                        model.nodes[*dead].alive = false;
                    }
                    popped.sort_unstable();
                    expected.sort_unstable();
                    prop_assert_eq!(popped, expected);
                }
                (_, Some(node)) => prop_assert_eq!(forest.pop_descendant(model.nodes[node].id), None),
            }
            let alive = model.nodes.iter().filter(|node| node.alive).count();
            prop_assert!(forest.len() >= alive);
            prop_assert!(forest.len() <= 3 * alive, "{} nodes for {alive} living", forest.len());
            for (index, node) in model.nodes.iter().enumerate() {
                prop_assert_eq!(forest.holder(node.id), node.alive.then_some(&index));
                if node.alive {
                    let capabilities =
                        model.below(index).iter().filter(|n| !model.nodes[**n].attachment).count();
                    // What was made through a capability that was released may count or not.
                    let is_own = |n: &ModelNode| n.attachment && n.parent == Some(index);
                    let derives = model.below(index).iter().any(|n| !is_own(&model.nodes[*n]));
                    prop_assert!(forest.has_derived(node.id) || capabilities == 0);
                    prop_assert!(!forest.has_derived(node.id) || derives);
                }
            }
        }
        for node in &model.nodes {
            forest.remove(node.id);
        }
        prop_assert!(forest.is_empty());
    }
}

#[test]
fn a_released_middle_still_dies_with_its_root() {
    let mut forest = Forest::new();
    let root = forest.insert_root("root").unwrap();
    let middle = forest.insert_child(root, "middle").unwrap();
    let mapping = forest.attach(middle, "mapping").unwrap();
    let beside = forest.attach(middle, "other half").unwrap();
    assert_eq!(forest.pop_descendant(middle), None, "what was made through itself stays");
    assert_eq!(forest.remove(middle), Some("middle"));
    assert_eq!(forest.holder(mapping), Some(&"mapping"));
    assert_eq!(forest.remove(beside), Some("other half"));
    assert_eq!(forest.pop_descendant(root), Some("mapping"));
    assert_eq!(forest.pop_descendant(root), None);
    assert_eq!(forest.len(), 1);
}

#[test]
fn deriving_and_releasing_in_a_chain_keeps_no_joints() {
    let mut forest = Forest::new();
    let mut last = forest.insert_root(0).unwrap();
    for number in 1..1000 {
        let next = forest.insert_child(last, number).unwrap();
        forest.remove(last);
        last = next;
    }
    assert_eq!(forest.len(), 1);
}

#[test]
fn attachments_alone_keep_fewer_than_two_joints_each() {
    let mut forest = Forest::new();
    let root = forest.insert_root(0).unwrap();
    let children: Vec<NodeId> = (1..=3).map(|number| forest.insert_child(root, number).unwrap()).collect();
    for child in &children {
        forest.attach(*child, 10).unwrap();
        forest.remove(*child);
    }
    forest.remove(root);
    // Three attachments, their three joints, and the one that branches.
    assert_eq!(forest.len(), 7);
}

#[test]
fn nothing_is_added_to_what_is_being_revoked() {
    let mut forest = Forest::new();
    let root = forest.insert_root("root").unwrap();
    let child = forest.insert_child(root, "child").unwrap();
    let grandchild = forest.insert_child(child, "grandchild").unwrap();
    let other = forest.insert_root("other").unwrap();
    forest.begin_revocation(root);
    assert_eq!(forest.insert_child(child, "late"), Err(ForestError::Gone));
    assert_eq!(forest.attach(grandchild, "late"), Err(ForestError::Gone));
    forest.insert_child(other, "free").unwrap();
    assert_eq!(forest.insert_child(root, "of the revoked node itself"), Err(ForestError::Busy));
    while forest.pop_descendant(root).is_some() {}
    // The end of it is the end of the refusals.
    let child = forest.insert_child(root, "child").unwrap();
    let grandchild = forest.insert_child(child, "grandchild").unwrap();
    forest.begin_revocation(root);
    forest.end_revocation(root);
    forest.insert_child(grandchild, "again").unwrap();
    forest.begin_revocation(root);
    forest.begin_revocation(root);
    assert_eq!(forest.remove(root), Some("root"));
    forest.insert_child(grandchild, "again").unwrap();
    assert_eq!(forest.revocations, 0);
}

#[test]
fn what_lies_deep_waits_for_the_end_of_a_revocation() {
    let mut forest = Forest::new();
    let root = forest.insert_root(0).unwrap();
    let mut deepest = root;
    for depth in 1..=LOOKED_AT + 1 {
        deepest = forest.insert_child(deepest, depth).unwrap();
    }
    let other = forest.insert_root(0).unwrap();
    forest.begin_revocation(other);
    assert_eq!(forest.insert_child(deepest, 0), Err(ForestError::Busy));
    forest.end_revocation(other);
    forest.insert_child(deepest, 0).unwrap();
}

proptest! {
    /// However a revocation is interrupted by what others add and remove, it ends, and nothing is left that derives from the node.
    #[test]
    fn a_revocation_in_steps_is_whole(
        shape in prop::collection::vec((any::<u16>(), any::<bool>()), 1..200),
        between in prop::collection::vec((any::<u16>(), 0_u8..3), 0..400),
    ) {
        let mut forest = Forest::new();
        let mut nodes = vec![forest.insert_root(0_usize).unwrap()];
        let mut stays = vec![nodes[0]];
        for (parent, attachment) in shape {
            let (parent, holder) = (nodes[usize::from(parent) % nodes.len()], nodes.len());
            let added = if attachment { forest.attach(parent, holder) } else { forest.insert_child(parent, holder) };
            nodes.extend(added.ok());
            stays.extend(added.ok().filter(|_| attachment && parent == nodes[0]));
        }
        let root = nodes[0];
        forest.begin_revocation(root);
        let mut between = between.into_iter();
        while let Some(found) = forest.find_descendant(root) {
            let Found::Thing(found, _) = found else { continue };
            if let Some((picked, act)) = between.next() {
                let picked = nodes[usize::from(picked) % nodes.len()];
                match act {
                    _ if picked == root => {}
                    0 => prop_assert!(forest.insert_child(picked, 0).is_err()),
                    1 => prop_assert!(forest.attach(picked, 0).is_err()),
                    _ => drop(forest.remove(picked)),
                }
            }
            forest.remove(found);
        }
        let alive: Vec<_> = nodes.into_iter().filter(|node| forest.holder(*node).is_some()).collect();
        prop_assert!(alive.iter().all(|node| stays.contains(node)));
        prop_assert_eq!(forest.len(), alive.len());
        prop_assert_eq!(forest.revocations, 0);
    }
}
