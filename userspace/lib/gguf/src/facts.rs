//! A catalogue's facts about a model.

use alloc::format;

use crate::Header;

/// Key of the template of conversations.
pub const CHAT_TEMPLATE: &str = "tokenizer.chat_template";
/// Key of the template of conversations with tools, of files that have one for these.
pub const TOOL_TEMPLATE: &str = "tokenizer.chat_template.tool_use";

/// The facts about a model in its file, each if it is present and has the right type. Texts that are not UTF-8 count as
/// absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// `general.name`.
    pub name: Option<&'a str>,
    /// `general.architecture`, or empty.
    pub architecture: &'a str,
    /// `<architecture>.context_length` in tokens, or 0.
    pub context_length: u32,
    /// `general.license`.
    pub license: Option<&'a str>,
    /// `general.description`.
    pub description: Option<&'a str>,
    /// The kind of quantisation as engines call it, such as `Q4_K_M`: by `general.file_type`,
    /// or else the type that most bytes of tensor data are of.
    pub quantisation: &'static str,
    /// `tokenizer.chat_template`, if not empty.
    pub chat_template: Option<&'a str>,
    /// `tokenizer.chat_template.tool_use`, if not empty: the separate template for tools.
    pub tool_template: Option<&'a str>,
    /// Tokens in the vocabulary, or 0.
    pub vocabulary: u64,
    /// Values of all tensors together.
    pub parameters: u64,
}

impl<'a> Facts<'a> {
    /// The templates for conversations with tools, the one to be preferred first.
    pub fn templates_with_tools(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.tool_template.into_iter().chain(self.chat_template)
    }

    /// The template for conversations without tools.
    pub fn template_without_tools(&self) -> Option<&'a str> {
        self.chat_template.or(self.tool_template)
    }

    pub(crate) fn of(header: &Header<'a>) -> Self {
        let text = |key: &str| header.get(key).and_then(|value| value.as_text());
        let template = |key: &str| text(key).filter(|template| !template.trim().is_empty());
        let architecture = text("general.architecture").unwrap_or("");
        let context = header.get(&format!("{architecture}.context_length"));
        let file_type = header.get("general.file_type").and_then(|value| value.as_u64());
        let parameters =
            header.tensors().iter().fold(0u64, |sum, tensor| sum.saturating_add(tensor.dimensions().iter().product()));
        Self {
            name: text("general.name"),
            architecture,
            context_length: context
                .and_then(|value| value.as_u64())
                .map_or(0, |tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
            license: text("general.license"),
            description: text("general.description"),
            quantisation: file_type.and_then(file_type_name).unwrap_or_else(|| heaviest_type(header)),
            chat_template: template(CHAT_TEMPLATE),
            tool_template: template(TOOL_TEMPLATE),
            vocabulary: header
                .get("tokenizer.ggml.tokens")
                .and_then(|value| value.as_array())
                .map_or(0, |array| array.len()),
            parameters,
        }
    }
}

/// The type that most bytes of tensor data are of.
fn heaviest_type(header: &Header<'_>) -> &'static str {
    let mut sums = [("unknown", 0u64); 64];
    for tensor in header.tensors() {
        let slot = usize::try_from(tensor.kind().code()).ok().and_then(|code| sums.get_mut(code));
        if let Some((name, bytes)) = slot {
            *name = tensor.kind().name();
            *bytes = bytes.saturating_add(tensor.bytes());
        }
    }
    sums.iter().max_by_key(|(_, bytes)| *bytes).map_or("unknown", |(name, _)| *name)
}

/// The name of a `general.file_type` number.
pub fn file_type_name(number: u64) -> Option<&'static str> {
    Some(match number {
        0 => "F32",
        1 => "F16",
        2 => "Q4_0",
        3 => "Q4_1",
        7 => "Q8_0",
        8 => "Q5_0",
        9 => "Q5_1",
        10 => "Q2_K",
        11 => "Q3_K_S",
        12 => "Q3_K_M",
        13 => "Q3_K_L",
        14 => "Q4_K_S",
        15 => "Q4_K_M",
        16 => "Q5_K_S",
        17 => "Q5_K_M",
        18 => "Q6_K",
        19 => "IQ2_XXS",
        20 => "IQ2_XS",
        21 => "Q2_K_S",
        22 => "IQ3_XS",
        23 => "IQ3_XXS",
        24 => "IQ1_S",
        25 => "IQ4_NL",
        26 => "IQ3_S",
        27 => "IQ3_M",
        28 => "IQ2_S",
        29 => "IQ2_M",
        30 => "IQ4_XS",
        31 => "IQ1_M",
        32 => "BF16",
        36 => "TQ1_0",
        37 => "TQ2_0",
        38 => "MXFP4",
        _ => return None,
    })
}
