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
            let round = forest.begin_round();
            for (index, node) in model.nodes.iter().enumerate() {
                prop_assert_eq!(forest.holder(node.id), node.alive.then_some(&index));
                if node.alive {
                    let capabilities =
                        model.below(index).iter().filter(|n| !model.nodes[**n].attachment).count();
                    // Once with a shared round, once with a new one.
                    prop_assert_eq!(forest.descendants(node.id, round) as usize, capabilities);
                    let alone = forest.begin_round();
                    prop_assert_eq!(forest.descendants(node.id, alone) as usize, capabilities);
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
