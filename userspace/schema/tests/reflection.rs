//! The reflection tables of the real schema.

use capos_schema::INTERFACES;
use capos_schema::reflection::{Category, interface};
use capos_schema::storage::DirectoryClient;

#[test]
fn every_interface_is_found_by_its_identifier() {
    assert!(INTERFACES.windows(2).all(|pair| pair[0].id < pair[1].id), "sorted, each once");
    for info in INTERFACES {
        assert_eq!(interface(info.id).map(|found| found.name), Some(info.name));
    }
    assert!(interface(0).is_none());
}

#[test]
fn annotations_and_comments_are_carried_over() {
    let directory = interface(DirectoryClient::INTERFACE_ID).expect("Directory");
    assert!(directory.doc.starts_with("A tree of files"));
    let remove = directory.method("remove").expect("remove");
    assert_eq!((remove.tool, remove.category), (Some("delete_file"), Some(Category::Destructive)));
    assert!(!remove.abortable && !remove.takes_capabilities);
    let read = directory.method("readText").expect("readText");
    assert!(read.abortable && read.untrusted && read.redact);
    assert!(read.doc.contains("UTF-8"));
    let open = directory.method("open").expect("open");
    assert!(open.gives_capabilities && open.tool.is_none() && open.category.is_none());
}

#[test]
fn categories_are_those_of_the_schema() {
    use capos_schema::annotations::Category as Schema;
    assert_eq!(Schema::ALL.len(), Category::ALL.len());
    for (schema, category) in Schema::ALL.iter().zip(Category::ALL) {
        assert_eq!(schema.name(), category.name());
        assert_eq!(Category::from_ordinal(*schema as u16), Some(*category));
    }
}

#[test]
fn every_tool_says_what_it_does_and_has_a_category() {
    let mut names = Vec::new();
    for info in INTERFACES {
        for method in info.methods.iter().filter(|method| method.tool.is_some()) {
            assert!(method.category.is_some(), "{}.{} has no category", info.name, method.name);
            assert!(!method.doc.is_empty(), "{}.{} has no doc comment", info.name, method.name);
            assert!(!method.takes_capabilities, "{}.{} wants a capability", info.name, method.name);
            names.extend(method.tool);
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "tool names are unique");
    assert!(count >= 10);
}
