//! Models that embed texts.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use capos_rt::{Context, Either, Env, Error};
use capos_schema::models::{ModelCatalogClient, ModelInfo, TextEmbedderClient};

use crate::{Report, ensure};

/// The host's results (`userspace/lib/inference/tests/guest.rs`): a model, a text and numbers in a line.
const VECTORS: &str = include_str!("../../../../tests/scenarios/embedder/vectors.txt");
/// How far a vector of length one may be from the host's: kernels that keep keys and values as bytes round them.
const TOLERANCE: f32 = 2e-2;

/// The lines of one model: texts and vectors.
fn expected(model: &str) -> Result<(Vec<String>, Vec<Vec<f32>>), Error> {
    let (mut texts, mut vectors) = (Vec::new(), Vec::new());
    for line in VECTORS.lines().filter_map(|line| line.strip_prefix(model)?.strip_prefix('\t')) {
        let (text, numbers) = line.split_once('\t').context("a line of vectors.txt has no numbers")?;
        texts.push(text.to_string());
        vectors.push(numbers.split(' ').filter_map(|number| number.parse().ok()).collect());
    }
    ensure(!texts.is_empty(), format!("vectors.txt has nothing of {model}"))?;
    Ok((texts, vectors))
}

/// The square of the distance between two vectors.
fn apart(one: &[f32], other: &[f32]) -> f32 {
    one.iter().zip(other).fold(0.0, |sum, (one, other)| sum + (one - other) * (one - other))
}

/// B03: the vectors of a model are those of the host.
async fn vectors_are_those_of_the_host(embedder: &TextEmbedderClient, model: &str) -> Result<(), Error> {
    let (texts, expected) = expected(model)?;
    let found = embedder.embed(&texts).await?;
    ensure(found.len() == texts.len(), format!("of {} texts it gave {} vectors", texts.len(), found.len()))?;
    for ((found, expected), text) in found.iter().zip(&expected).zip(&texts) {
        let (width, apart) = (found.values.len(), apart(&found.values, expected));
        let good = width == expected.len() && apart < TOLERANCE * TOLERANCE;
        ensure(good, format!("{model} makes of {text:?} {width} numbers, {apart} (squared) from the host's"))?;
    }
    Ok(())
}

/// The description of a model that only embeds.
fn is_described(info: &ModelInfo, arch: &str) -> Result<(), Error> {
    let good = info.arch == arch
        && info.backend == "local-embedder"
        && info.context_tokens == 64
        && info.output_tokens == 0
        && !info.supports_tools
        && info.license == "CC0-1.0";
    ensure(good, format!("the catalog says {info:?}"))
}

/// Why a call did not go well.
fn why<T>(result: Result<T, capos_schema::cap::CallError>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}

/// Texts that do not fit are rejected with an error message and never cut.
async fn what_does_not_fit_is_refused(embedder: &TextEmbedderClient) -> Result<(), Error> {
    for (texts, words) in [
        (vec!["a ".repeat(63)], "text 1 has 65 tokens, and the model takes 64; divide it"),
        (vec!["cat".to_string(), "a".repeat(2000)], "text 2 has 2000 bytes, and this model takes texts of 1024"),
        (vec!["cat".to_string(); 257], "257 texts are too many: this model takes 256 in one call"),
    ] {
        let why = why(embedder.embed(&texts).await);
        ensure(why.contains(words), format!("it says {why:?} and not that {words}"))?;
    }
    ensure(embedder.embed(&[]).await?.is_empty(), "of no texts it makes vectors")
}

/// While texts are embedded others are served, and work for a caller that leaves is dropped.
async fn others_are_served(embedder: &TextEmbedderClient) -> Result<(), Error> {
    let many = vec!["water the plants on monday and feed a cat before you go home".to_string(); 256];
    let info = match capos_rt::select(embedder.embed(&many), embedder.info()).await {
        Either::First(_) => return Err(Error::new("256 texts were embedded before another call was answered")),
        Either::Second(info) => info?,
    };
    ensure(!info.id.is_empty(), "it says nothing of its model")?;
    // The first call is cancelled by now; a short one does not wait for its 256 texts, which take longer than these.
    let rest = async {
        for _ in 0..8 {
            embedder.embed(&["go home".to_string()]).await?;
        }
        Ok::<_, Error>(())
    };
    match capos_rt::select(embedder.embed(&many), rest).await {
        Either::First(_) => Err(Error::new("short texts waited for 256 others")),
        Either::Second(rest) => rest,
    }
}

/// The results of the scenario's embedders.
///
/// # Errors
/// What does not hold.
pub async fn run(env: &Env, report: &Report) -> Result<(), Error> {
    let catalog = env.cap::<ModelCatalogClient>("catalog")?;
    let models = catalog.list().await?;
    let named = |name: &str| {
        let found = models.iter().find(|model| model.display_name == name).cloned();
        found.ok_or_else(|| Error::new(format!("no model {name} is registered")))
    };
    for (name, arch) in [("bert", "bert"), ("nomic-bert-q8_0", "nomic-bert")] {
        let model = named(name)?;
        is_described(&model, arch)?;
        let embedder = catalog.open_embedder(&model.id).await?;
        ensure(embedder.info().await? == model, "the worker says something else of its model than the catalog")?;
        vectors_are_those_of_the_host(&embedder, name).await?;
        what_does_not_fit_is_refused(&embedder).await?;
        others_are_served(&embedder).await?;
        // B11: the same worker serves a second opening.
        vectors_are_those_of_the_host(&catalog.open_embedder(&model.id).await?, name).await?;
        let why = why(catalog.open_language_model(&model.id).await);
        ensure(why.contains("embeds texts and writes none"), format!("opened as a language model it says {why:?}"))?;
    }
    // A language model embeds as well, in the worker that writes.
    let talking = named("talking")?;
    vectors_are_those_of_the_host(&catalog.open_embedder(&talking.id).await?, "talking").await?;
    ensure(catalog.open_language_model(&talking.id).await?.info().await? == talking, "it is another language model")?;
    let scripted = models.iter().find(|model| model.backend == "local-scripted").context("no model plays a script")?;
    let why = why(catalog.open_embedder(&scripted.id).await);
    ensure(why.contains("local-scripted, which embeds no texts"), format!("of a scripted model it says {why:?}"))?;
    report.line("vectors are those of the host");
    Ok(())
}
