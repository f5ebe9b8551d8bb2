//! Bounds of the kernel's figures: at most a hundredth or two over a baseline in the repository, and the same at both
//! ends of a curve.
//!
//! The baseline is `docs/bench/baseline.json`: for each figure its value and the reason of its last change, and the
//! compiler and emulator. Another compiler generates other instructions for the same source, so figures are then
//! printed and not judged. Curves are always judged, since both ends come from one run.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use crate::build::toolchain;
use crate::measure::figure::Figures;
use capos_host::tool;

/// The scenario that measures the kernel alone, which the tests run as well, by its folder.
pub const SCENARIO: &str = "figures";
/// Where the baseline is.
pub const BASELINE: &str = "docs/bench/baseline.json";
/// How much over its baseline a figure may be, in hundredths of it.
const OVER: u64 = 2;
/// How much over its first point any other point of a curve may be, in hundredths of it.
const GROWTH: u64 = 3;
/// A placeholder for every figure.
pub const ALL: &str = "all";

/// The dependencies of instruction figures besides the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// The version text of the kernel's compiler.
    pub kernel_compiler: String,
    /// The compiler of programs.
    pub program_compiler: String,
    /// QEMU's version, without its last part: which processor `max` is depends on it.
    pub qemu: String,
}

impl Tools {
    /// Those that are used here.
    pub fn here(root: &Path) -> Result<Self> {
        let mut qemu = Command::new(tool::find(&["qemu-system-x86_64"], "qemu-system-x86")?);
        let said = qemu.arg("--version").output().context("asking QEMU for its version")?;
        let said = String::from_utf8_lossy(&said.stdout).into_owned();
        let (kernel_compiler, program_compiler) = toolchain::compilers(root)?;
        Ok(Self { kernel_compiler, program_compiler, qemu: series(&said).context("QEMU printed no version")? })
    }
}

/// The `7.2` of `QEMU emulator version 7.2.22 (…)`.
fn series(said: &str) -> Option<String> {
    let version = said.split_once("version ")?.1.split([' ', '\n', '(']).next()?;
    let mut parts = version.split('.');
    Some(format!("{}.{}", parts.next()?, parts.next()?))
}

/// A figure's baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Base {
    /// Its value.
    pub value: u64,
    /// Why it is this and no longer what it was before.
    pub because: String,
}

/// The file of baselines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The compiler and emulator of the figures.
    pub tools: Tools,
    /// By their names.
    pub figures: BTreeMap<String, Base>,
}

impl Baseline {
    /// Reads the checked-in one.
    pub fn read(root: &Path) -> Result<Self> {
        let path = root.join(BASELINE);
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    fn write(&self, root: &Path) -> Result<()> {
        let mut json = serde_json::to_string_pretty(self)?;
        json.push('\n');
        let path = root.join(BASELINE);
        std::fs::write(&path, json).with_context(|| format!("writing {}", path.display()))
    }

    /// Stores the measured values of these figures, or of [`ALL`]: then all other figures are forgotten.
    fn move_to(&mut self, measured: &Figures, names: &[String], because: &str, tools: Tools) -> Result<()> {
        ensure!(!because.trim().is_empty(), "a moved baseline needs a reason: add --because");
        let all = names.iter().any(|name| name == ALL);
        ensure!(
            all || self.tools == tools,
            "the baseline was made by {:?}, and this host has {tools:?}: all figures have to move together (`{ALL}`)",
            self.tools
        );
        let base = |value| Base { value, because: because.trim().to_owned() };
        if all {
            let old = std::mem::take(&mut self.figures);
            for (name, figure) in measured.iter().filter(|(name, _)| is_judged(name)) {
                let kept = old.get(name).filter(|old| old.value == figure.value && self.tools == tools);
                self.figures.insert(name.clone(), kept.cloned().unwrap_or_else(|| base(figure.value)));
            }
            self.tools = tools;
            return Ok(());
        }
        for name in names {
            let Some(figure) = measured.get(name).filter(|_| is_judged(name)) else {
                let known: Vec<&str> = measured.keys().map(String::as_str).filter(|name| is_judged(name)).collect();
                bail!("there is no figure `{name}`; there are {}", known.join(", "));
            };
            self.figures.insert(name.clone(), base(figure.value));
        }
        Ok(())
    }

    /// How each figure compares.
    fn judge(&self, measured: &Figures, tools: &Tools) -> Vec<Verdict> {
        let names = measured.keys().chain(self.figures.keys()).filter(|name| is_judged(name));
        let names: std::collections::BTreeSet<&String> = names.collect();
        let judge = |name: &String| {
            let (seen, base) = (measured.get(name).map(|figure| figure.value), self.figures.get(name));
            let outcome = match (seen, base) {
                (Some(seen), Some(base)) if self.tools == *tools => compare(name, seen, base),
                (Some(seen), Some(base)) => Outcome::Told(format!("{seen}, not compared with {}", base.value)),
                (Some(seen), None) => Outcome::Wrong(format!(
                    "it is {seen} and has no baseline in {BASELINE}; {}",
                    how_to_move(name, "first measured")
                )),
                (None, _) => Outcome::Wrong(format!("it has a baseline in {BASELINE} and was not measured")),
            };
            Verdict { name: name.clone(), outcome }
        };
        names.into_iter().map(judge).collect()
    }
}

/// Whether a figure has a baseline: points of curves have their first point.
fn is_judged(name: &str) -> bool {
    !name.contains('@')
}

fn how_to_move(name: &str, because: &str) -> String {
    format!("to move it: target/debug/capos bench --move-baseline {name} --because \"{because}\"")
}

/// In hundredths, with two more places.
fn percent(seen: u64, base: u64) -> String {
    format!("{:+.2} %", (seen as f64 / base.max(1) as f64 - 1.0) * 100.0)
}

fn compare(name: &str, seen: u64, base: &Base) -> Outcome {
    let (value, percent) = (base.value, percent(seen, base.value));
    if u128::from(seen) * 100 > u128::from(value) * u128::from(100 + OVER) {
        return Outcome::Wrong(format!(
            "{seen} instructions, {percent} against its baseline of {value}; the limit is +{OVER} %. If this is \
             intended, {}",
            how_to_move(name, "why it costs more")
        ));
    }
    let words = if u128::from(seen) * 100 < u128::from(value) * u128::from(100 - OVER) {
        let move_it = how_to_move(name, "why it costs less");
        format!("{seen}, {percent} against its baseline of {value}. To accept it, {move_it}")
    } else {
        format!("{seen}, baseline {value}")
    };
    Outcome::Fine(words)
}

/// How a figure, or a curve, was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Its name; a curve's is that of its figure, with its axis after `@`.
    pub name: String,
    /// The text of the verdict.
    pub outcome: Outcome,
}

/// The verdict on a figure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is as it should be.
    Fine(String),
    /// It cannot be judged here.
    Told(String),
    /// It fails the tests.
    Wrong(String),
}

/// Points of a curve: where, and how many.
type Points = Vec<(u64, u64)>;

/// The curves among figures, by figure and axis, each from its first point on.
pub fn curves(measured: &Figures) -> Result<BTreeMap<String, Points>> {
    let mut curves: BTreeMap<String, Points> = BTreeMap::new();
    for (name, figure) in measured {
        let Some((curve, point)) = name.split_once('=').filter(|(curve, _)| curve.contains('@')) else { continue };
        let point = point.parse().with_context(|| format!("`{name}` is no point of a curve"))?;
        curves.entry(curve.to_owned()).or_default().push((point, figure.value));
    }
    curves.values_mut().for_each(|points| points.sort_unstable());
    Ok(curves)
}

/// Whether no point is dearer than the first.
fn flat(points: &Points) -> Outcome {
    let words: Vec<String> = points.iter().map(|(point, value)| format!("{value} at {point}")).collect();
    let words = words.join(", ");
    let Some((_, first)) = points.first().filter(|_| points.len() > 1) else {
        return Outcome::Wrong(format!("a curve needs two points; there is {words}"));
    };
    let limit = u128::from(*first) * u128::from(100 + GROWTH);
    match points.iter().find(|(_, value)| u128::from(*value) * 100 > limit) {
        Some((point, value)) => Outcome::Wrong(format!(
            "{} at {point}, and no more than +{GROWTH} % are allowed: {words}",
            percent(*value, *first)
        )),
        None => Outcome::Fine(words),
    }
}

/// Judges the results of the kernel's benchmark: each figure, and each curve.
pub fn judge(root: &Path, measured: &Figures) -> Result<Vec<Verdict>> {
    let (baseline, tools) = (Baseline::read(root)?, Tools::here(root)?);
    let mut verdicts = baseline.judge(measured, &tools);
    if baseline.tools != tools {
        println!(
            "the figures of {BASELINE} are of {:?}; this host has {tools:?}, so the figures are printed and not judged",
            baseline.tools
        );
    }
    let curves = curves(measured)?;
    ensure!(!curves.is_empty(), "no curve was measured");
    verdicts.extend(curves.into_iter().map(|(name, points)| Verdict { outcome: flat(&points), name }));
    Ok(verdicts)
}

/// Moves baselines to the measured values, for a reason, and prints the old and the new ones.
pub fn move_baseline(root: &Path, measured: &Figures, names: &[String], because: &str) -> Result<()> {
    let mut baseline = Baseline::read(root)?;
    let old = baseline.clone();
    baseline.move_to(measured, names, because, Tools::here(root)?)?;
    for (name, base) in &baseline.figures {
        match old.figures.get(name) {
            Some(before) if before == base => {}
            Some(before) => println!("{name}: {} → {}", before.value, base.value),
            None => println!("{name}: {}", base.value),
        }
    }
    baseline.write(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::figure::Figure;

    fn tools(compiler: &str) -> Tools {
        Tools { kernel_compiler: compiler.into(), program_compiler: compiler.into(), qemu: "7.2".into() }
    }

    fn measured(values: &[(&str, u64)]) -> Figures {
        let figure = |value| Figure { value, unit: "instructions".into(), how: "so".into() };
        values.iter().map(|(name, value)| ((*name).to_owned(), figure(*value))).collect()
    }

    fn baseline(values: &[(&str, u64)]) -> Baseline {
        let base = |value| Base { value, because: "first measured".into() };
        let figures = values.iter().map(|(name, value)| ((*name).to_owned(), base(*value))).collect();
        Baseline { tools: tools("a"), figures }
    }

    fn wrong(verdicts: &[Verdict]) -> Vec<&str> {
        let wrong = verdicts.iter().filter(|verdict| matches!(verdict.outcome, Outcome::Wrong(_)));
        wrong.map(|verdict| verdict.name.as_str()).collect()
    }

    #[test]
    fn a_figure_over_its_baseline_is_wrong_and_one_below_is_not() {
        let baseline = baseline(&[("null_call", 1000), ("other", 100)]);
        for (seen, expected) in [(900, vec![]), (1000, vec![]), (1020, vec![]), (1021, vec!["null_call"])] {
            let verdicts = baseline.judge(&measured(&[("null_call", seen), ("other", 100)]), &tools("a"));
            assert_eq!(wrong(&verdicts), expected, "{seen}");
        }
        let verdicts = baseline.judge(&measured(&[("null_call", 1100), ("other", 100)]), &tools("a"));
        let Outcome::Wrong(words) = &verdicts[0].outcome else { panic!("{verdicts:?}") };
        for part in ["1100", "1000", "+10.00 %", "--move-baseline null_call --because"] {
            assert!(words.contains(part), "{words}");
        }
    }

    #[test]
    fn a_figure_without_a_baseline_and_one_that_is_gone_are_wrong() {
        let verdicts = baseline(&[("gone", 5)]).judge(&measured(&[("new", 5), ("new@processes=2", 5)]), &tools("a"));
        assert_eq!(wrong(&verdicts), ["gone", "new"]);
    }

    #[test]
    fn with_another_compiler_figures_are_told_only() {
        let verdicts = baseline(&[("null_call", 1000)]).judge(&measured(&[("null_call", 5000)]), &tools("b"));
        assert!(matches!(verdicts[0].outcome, Outcome::Told(_)), "{verdicts:?}");
    }

    #[test]
    fn a_curve_that_grows_is_wrong() {
        assert!(matches!(flat(&vec![(2, 1000), (10, 1030), (1000, 900)]), Outcome::Fine(_)));
        assert!(matches!(flat(&vec![(2, 1000), (10, 1031), (1000, 1000)]), Outcome::Wrong(_)));
        assert!(matches!(flat(&vec![(2, 1000)]), Outcome::Wrong(_)));
        let points = measured(&[("a@n=1000", 7), ("a@n=2", 5), ("a@n=10", 6), ("b@m=1", 1), ("a", 9)]);
        let curves = curves(&points).unwrap();
        assert_eq!(curves["a@n"], [(2, 5), (10, 6), (1000, 7)]);
        assert_eq!(curves.len(), 2);
        assert!(super::curves(&measured(&[("a@n=x", 1)])).is_err());
    }

    #[test]
    fn a_baseline_moves_for_a_reason_and_only_where_asked() {
        let mut moved = baseline(&[("a", 1), ("b", 2)]);
        let seen = measured(&[("a", 10), ("b", 20), ("a@n=1", 3)]);
        assert!(moved.move_to(&seen, &["a".into()], " ", tools("a")).is_err());
        assert!(moved.move_to(&seen, &["c".into()], "x", tools("a")).is_err());
        assert!(moved.move_to(&seen, &["a".into()], "x", tools("b")).is_err());
        assert_eq!(moved, baseline(&[("a", 1), ("b", 2)]));
        moved.move_to(&seen, &["a".into()], "x", tools("a")).unwrap();
        let values = |baseline: &Baseline| baseline.figures.values().map(|base| base.value).collect::<Vec<_>>();
        assert_eq!(values(&moved), [10, 2]);
        moved.move_to(&seen, &[ALL.into()], "y", tools("b")).unwrap();
        assert_eq!((values(&moved), &moved.tools), (vec![10, 20], &tools("b")));
    }

    #[test]
    fn of_a_version_the_last_part_is_left_out() {
        assert_eq!(series("QEMU emulator version 7.2.22 (Debian 1:7.2)\n").as_deref(), Some("7.2"));
        assert_eq!(series("QEMU emulator version 10.0\n").as_deref(), Some("10.0"));
        assert_eq!(series("nothing"), None);
    }
}
