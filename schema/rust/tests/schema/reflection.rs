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
    assert!(read.abortable && read.untrusted && read.pieces);
    assert!(read.doc.contains("UTF-8"));
    assert_eq!((read.runner_params, read.runner_results), (&[][..], &["start", "bytes", "label"][..]));
    let write = directory.method("writeText").expect("writeText");
    assert_eq!(write.runner_params, ["label", "basis"]);
    assert!(!write.params_schema.contains("label") && write.params_schema.contains("append"));
    let open = directory.method("open").expect("open");
    assert!(open.gives_capabilities && open.tool.is_none() && open.category.is_none());
}

#[test]
fn every_tool_says_what_it_does_and_has_a_category() {
    let mut names = Vec::new();
    for info in INTERFACES {
        for method in info.methods.iter().filter(|method| method.tool.is_some()) {
            assert!(method.category.is_some(), "{}.{} has no category", info.name, method.name);
            assert!(!method.doc.is_empty(), "{}.{} has no doc comment", info.name, method.name);
            assert!(method.person || !method.takes_capabilities, "{}.{} wants a capability", info.name, method.name);
            names.extend(method.tool);
        }
    }
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "tool names are unique");
    assert!(count >= 10);
}

#[test]
fn what_only_the_person_calls_is_offered_to_no_model() {
    use capos_schema::transfer::TransferVolumesClient;
    let volumes = interface(TransferVolumesClient::INTERFACE_ID).expect("TransferVolumes");
    assert_eq!(volumes.offered(false).count(), 0);
    let (export, descriptor) = volumes.tool("export_file").expect("export_file");
    assert_eq!((export.name, export.category), ("exportFile", Some(Category::Outbound)));
    assert!(
        !descriptor.param_schema.contains("label")
            && !descriptor.param_schema.contains("home")
            && descriptor.param_schema.contains("volume")
    );
    assert!(volumes.tool("list").is_none());
}

/// Methods that change something and may still be dropped halfway, and why that is safe.
const ABORTABLE_ALL_THE_SAME: &[(&str, &str, &str)] = &[
    ("Launcher", "run", "the program is killed, and what it did until then it did by its own grants"),
    ("Launcher", "runWith", "the same"),
    ("ProgramApproval", "ask", "the question ends, and what nobody has agreed to is not granted"),
    ("Standard", "writeBytes", "what was written was written; its writer asks no more how much"),
    ("Standard", "ready", "it only looks"),
    ("StandardInput", "read", "its reader reads no more: it has ended, or given up the stream"),
    ("StandardInput", "ready", "it only looks"),
    ("LanguageModel", "complete", "a response is data that nobody reads; the worker keeps nothing of a request"),
    ("LanguageModel", "stream", "the same; a stream that nobody holds ends"),
    ("TextEmbedder", "embed", "a vector is data that nobody reads; the worker keeps nothing of the texts"),
    ("TokenStream", "next", "the response stays where it was and can be read on or cancelled"),
    ("Namespace", "opened", "it only waits"),
    ("Reminders", "remind", "the runner sets a reminder at once or not at all, and the person can drop it"),
    ("AuditLog", "exportTo", "a part of the file is there, under another name, and the next call overwrites it"),
    ("Namespace", "watch", "the same"),
    ("AuditReader", "verify", "it only reads"),
    ("TransferVolumes", "volumes", "it only looks"),
    ("TransferVolumes", "list", "the same"),
    ("TransferVolumes", "copying", "the same"),
    ("TransferVolumes", "importFile", "a part of the file is there, and the next call continues it"),
    ("TransferVolumes", "exportFile", "the same"),
    ("ModelStore", "install", "a part of the file is there, and the next call continues it"),
    ("ModelStore", "installing", "it only looks"),
    ("ModelFolder", "open", "it only waits"),
    ("Vault", "backUp", "chunks that were written are there, no state names them, and the next backup continues"),
    ("Backups", "backUp", "the same"),
    ("Backups", "exportLog", "a file that is not whole has another name, and no record is removed"),
    ("AuditLog", "exportTo", "the same"),
    ("ClientPort", "next", "a request is taken only with the answer"),
    ("UserSession", "model", "what was opened is held by nobody, and goes when the broker next looks"),
    ("SessionPart", "model", "what was opened is held by nobody, and goes when the broker next looks"),
];

#[test]
fn only_what_does_no_harm_is_abortable() {
    let excused = |info: &str, method: &str| ABORTABLE_ALL_THE_SAME.iter().any(|(i, m, _)| (*i, *m) == (info, method));
    for info in INTERFACES {
        for method in info.methods.iter().filter(|method| method.abortable) {
            assert!(
                method.category == Some(Category::ReadOnly) || excused(info.name, method.name),
                "{}.{} is abortable and not readOnly: say in ABORTABLE_ALL_THE_SAME why that does no harm",
                info.name,
                method.name
            );
        }
    }
    for (info, method, _) in ABORTABLE_ALL_THE_SAME {
        let found = INTERFACES.iter().find(|i| i.name == *info).and_then(|i| i.method(method));
        let found = found.unwrap_or_else(|| panic!("there is no {info}.{method}"));
        assert!(found.abortable && found.category != Some(Category::ReadOnly), "{info}.{method} needs no excuse");
    }
}

/// The tables and the generated servers come from one source and agree.
#[test]
fn generated_servers_know_what_is_abortable() {
    use capos_schema::cap::Dispatch;
    use capos_schema::system::{LauncherClient, LauncherService};

    struct NoLauncher;
    impl capos_schema::system::LauncherServer for NoLauncher {
        async fn run(
            &self,
            _cx: &capos_schema::cap::CallContext,
            _program: String,
            _arguments: Vec<String>,
            _label: Option<capos_schema::authority::Label>,
            _approval: u64,
        ) -> Result<capos_schema::system::LauncherRunResults, capos_schema::cap::CallError> {
            Err(capos_schema::cap::CallError::failed("this is a test"))
        }

        async fn programs(
            &self,
            _cx: &capos_schema::cap::CallContext,
        ) -> Result<Vec<String>, capos_schema::cap::CallError> {
            Ok(Vec::new())
        }

        async fn describe(
            &self,
            _cx: &capos_schema::cap::CallContext,
        ) -> Result<Vec<capos_schema::system::ProgramInfo>, capos_schema::cap::CallError> {
            Ok(Vec::new())
        }

        async fn run_with(
            &self,
            _cx: &capos_schema::cap::CallContext,
            _program: String,
            _arguments: Vec<String>,
            _environment: Vec<String>,
            _own: Vec<String>,
            _grants: Vec<capos_schema::system::Grant>,
            _approval: u64,
        ) -> Result<capos_schema::kernel::ExitInfo, capos_schema::cap::CallError> {
            Err(capos_schema::cap::CallError::failed("this is a test"))
        }

        async fn usage(
            &self,
            _cx: &capos_schema::cap::CallContext,
        ) -> Result<capos_schema::system::ProgramsUsage, capos_schema::cap::CallError> {
            Err(capos_schema::cap::CallError::failed("this is a test"))
        }

        async fn for_session(
            &self,
            _cx: &capos_schema::cap::CallContext,
            _from: String,
            _home: Option<DirectoryClient>,
        ) -> Result<capos_schema::system::LauncherForSessionResults, capos_schema::cap::CallError> {
            Err(capos_schema::cap::CallError::failed("this is a test"))
        }

        async fn expect(
            &self,
            _cx: &capos_schema::cap::CallContext,
            _approval: capos_schema::system::ProgramApprovalClient,
        ) -> Result<u64, capos_schema::cap::CallError> {
            Err(capos_schema::cap::CallError::failed("this is a test"))
        }
    }
    let service = LauncherService(std::rc::Rc::new(NoLauncher));
    let id = LauncherClient::INTERFACE_ID;
    for method in interface(id).expect("Launcher").methods {
        assert_eq!(service.is_abortable(id, method.ordinal), method.abortable, "{}", method.name);
    }
    assert!(!service.is_abortable(id, 99) && !service.is_abortable(DirectoryClient::INTERFACE_ID, 0));
}
