// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The search for the bottleneck of a run.
//!
//! The run is made once as it is, and once more for each limit with only that limit lifted. The
//! limit that gains most is the bottleneck. It stays lifted, and the search is repeated for the
//! next one.
//!
//! Three rules keep the search from naming a remedy that is not the cause:
//!
//! 1. A gain below [`THRESHOLD`] does not count.
//! 2. A link of twice the rate speeds up whatever uses much of it, so a faster link is named only
//!    if nothing else gains [`CLEAR`] (and the link gains more): time of a full link that is wasted
//!    on short payloads, on replays, or by missing lanes comes before a faster link, which is then
//!    the next step. This holds for rates; for a latency only the largest gain counts.
//! 3. Of equal gains of a rate (within [`SAME_SHARE`] of the gain, or [`SAME`]) the most specific
//!    limit is named, in the order of [`LimitKind`]. Often several cures bring a run to the same
//!    next limit: reads that wait for tags gain as well from a memory that answers at once.
//!    Settings come first because they are easy to change, then choices of the program, parts of
//!    the requester, buffers and memories, and last the unavoidable: latencies and links.
//!
//! If no limit gains alone, several may limit the run to the same rate. All are lifted, which has
//! to gain [`CLEAR`]: many small gains are not a bottleneck. Then each is put back alone, and those
//! that take away more than half of the gain are the bottleneck together. Links and latencies are
//! lifted with the others only if the search fails without them. The same is tried if only a
//! latency gains: a run that waits for two things gains a little from a shorter wait.
//!
//! The account of a link names the waits of its sender, and the search names the bottleneck. Reads
//! may wait for tags because a slow datapath takes their completions slowly: the account then says
//! `no tag`, and the bottleneck is the datapath. Whether one causes the other is not guessed: the
//! wait has to disappear with the limit.

use std::sync::atomic::{AtomicUsize, Ordering};

use crosslane_experiment::parallel;
use crosslane_experiment::{Outcome, Progress, Scenario, Work};
use crosslane_results::{
    Account, Better, CLOSE, Consequence, Explanation, Figure, Limit, LimitKind, Step, Trial, Use,
};

use crate::error::ExplainError;
use crate::limits::{Explainable, Short};

/// Least gain that counts, as a fraction. The beginning and end of a shortened run are some tenths
/// of a percent of it, and may change by that much with any lever.
pub const THRESHOLD: f64 = 0.01;
/// Gain from which a limit is named before a faster link.
pub const CLEAR: f64 = 0.03;
/// Largest difference of equal gains, as a share of the larger one: cures that bring a run to the
/// same next limit differ a little in when they reach it.
pub const SAME_SHARE: f64 = 0.1;
/// Largest difference of equal gains.
pub const SAME: f64 = 0.001;
/// Share of the gain of all limits together that must remain without those that do not matter.
const KEPT_SHARE: f64 = 0.5;
/// Limits that are seldom reached: numbers of things that are held at once. A run that never needs
/// more is the same whatever the number is, so that a run without all of these limits which comes
/// out the same to the last digit stands for a run without each.
const SPARE: [LimitKind; 3] =
    [LimitKind::ReplayBuffer, LimitKind::ReadingDescriptors, LimitKind::ReadSlots];
/// Steps of a complete explanation: the bottleneck, and the next one.
pub const STEPS: usize = 2;
/// Most runs of one search: hundreds of limits in a lab whose parts all differ.
pub const MAX_RUNS: usize = 1000;

/// Figure and account of a run.
type Made = (Figure, Option<Account>);

/// Returns the same scenario without a limit.
type Lift<W> = Box<dyn Fn(&Scenario<W>) -> Result<Scenario<W>, ExplainError> + Send + Sync>;

/// A limit, and the way to lift it.
pub struct Lever<W: Work> {
    pub(crate) limit: Limit,
    pub(crate) lift: Lift<W>,
}

/// Finds the bottleneck of a run and the next ones, in at most `most_steps` steps: [`STEPS`] make a
/// complete explanation, one step is the bottleneck alone and takes about half the runs. `measured`
/// is the figure of the run itself, if it was made: a run that is explained in its place is
/// lengthened until its figure is [`CLOSE`] to that, as far as [`Explainable::shortened`] has
/// longer ones. `watch` is told the number of runs made so far, after each.
///
/// # Errors
/// The first run that cannot be made or goes wrong, and more limits than can be tried.
pub fn explain<W: Explainable>(
    scenario: &Scenario<W>,
    measured: Option<Figure>,
    most_steps: usize,
    watch: &(dyn Fn(usize) + Sync),
) -> Result<Explanation, ExplainError> {
    let search = Search { runs: AtomicUsize::new(0), watch };
    let ((first, shortened), (figure, account)) = search.in_place_of(scenario, measured)?;
    let (mut steps, mut trials, mut consequence) = (Vec::new(), Vec::new(), None);
    let (mut current, mut before) = (first.clone(), figure);
    for number in 0..most_steps {
        let levers = &W::levers(&current, &first)?;
        let round = Round { search: &search, scenario: &current, before, levers };
        let tried = round.each_alone()?;
        if number == 0 {
            trials = sorted(levers, &tried);
        }
        let Some(found) = round.bottleneck(&tried)? else { break };
        let lifted = round.without(&found)?;
        let after = match found[..] {
            [only] => tried[only].figure,
            _ => search.counted(lifted.figure())?,
        };
        steps.push(Step {
            limits: found.iter().map(|index| levers[*index].limit.clone()).collect(),
            value: after.value,
            gain: gain(before, after),
        });
        (current, before) = (lifted, after);
        if number == 0 {
            consequence = consequence_of(account.as_ref(), &current, &steps[0])?;
        }
    }
    let on_model = false;
    Ok(Explanation { figure, measured, shortened, on_model, account, steps, consequence, trials })
}

/// Explanation of a run, or the reason for which there is none; `None` if it was not asked for.
pub type Why = Option<Result<Explanation, String>>;

/// Facts known of a run that was made.
#[derive(Clone, Debug)]
pub struct Ran {
    /// Its figure, if it has one.
    pub figure: Option<Figure>,
    /// Its account; `None`: that of the run that is explained stands for it.
    pub account: Option<Account>,
    /// Whether anything went wrong in it.
    pub has_errors: bool,
}

impl Ran {
    /// A run of that rate, bytes per second, that ended with this number of wrong words.
    pub const fn rate(value: f64, wrong_words: u64) -> Self {
        let figure = Some(Figure { value, better: Better::Higher });
        Self { figure, account: None, has_errors: wrong_words > 0 }
    }

    /// Takes an outcome.
    pub fn of(outcome: &impl Outcome) -> Self {
        let (figure, account) = (outcome.figure(), outcome.account().cloned());
        Self { figure, account, has_errors: outcome.has_errors() }
    }
}

/// Explains runs that were made, up to an interruption. The last one is explained completely, of
/// the others the bottleneck alone, unless `every` one is to be complete.
pub fn explain_all<W: Explainable>(
    scenarios: &[Scenario<W>],
    ran: &[Ran],
    every: bool,
    progress: &(impl Progress + ?Sized),
) -> Vec<Why> {
    let runs: Vec<_> = scenarios.iter().zip(ran).enumerate().collect();
    parallel::map(&runs, |(index, (scenario, ran))| {
        if progress.is_over() {
            return None;
        }
        let steps = if every || index + 1 == scenarios.len() { STEPS } else { 1 };
        let why = match ran.has_errors {
            true => Err("the run had errors".to_owned()),
            false => explain(scenario, ran.figure, steps, &|_| progress.tried())
                .map(|why| Explanation { account: ran.account.clone().or(why.account), ..why })
                .map_err(|error| error.to_string()),
        };
        progress.explained();
        Some(why)
    })
}

/// Returns the wait of another name in the account that disappears with the first step.
fn consequence_of<W: Explainable>(
    account: Option<&Account>,
    lifted: &Scenario<W>,
    step: &Step,
) -> Result<Option<Consequence>, ExplainError> {
    let kinds: Vec<LimitKind> = step.limits.iter().map(|limit| limit.kind).collect();
    let waited = account.and_then(|account| Some((account, to_explain(account, &kinds)?)));
    let Some((account, what)) = waited else { return Ok(None) };
    let (_, without) = made(lifted)?;
    Ok(without.and_then(|without| consequence(what, account, &without)))
}

/// Makes a run and returns its figure, and the account of its busiest direction.
fn made<W: Work>(scenario: &Scenario<W>) -> Result<Made, ExplainError> {
    let outcome = scenario.run(&(), None)?;
    let figure = match outcome.figure().filter(|_| !outcome.has_errors()) {
        Some(figure) => figure,
        // It says what went wrong.
        None => scenario.figure()?,
    };
    Ok((figure, outcome.account().cloned()))
}

/// Returns the improvement of a figure, as a fraction of the one before.
fn gain(before: Figure, after: Figure) -> f64 {
    if before.value <= 0.0 {
        return 0.0;
    }
    match before.better {
        Better::Higher => after.value / before.value - 1.0,
        Better::Lower => 1.0 - after.value / before.value,
    }
}

/// Returns the limits that were lifted alone, the best first.
fn sorted<W: Work>(levers: &[Lever<W>], tried: &[Tried]) -> Vec<Trial> {
    let mut trials: Vec<Trial> = levers
        .iter()
        .zip(tried)
        .map(|(lever, tried)| Trial {
            limit: lever.limit.clone(),
            value: tried.figure.value,
            gain: tried.gain,
        })
        .collect();
    trials.sort_by(|a, b| b.gain.total_cmp(&a.gain).then(a.limit.kind.cmp(&b.limit.kind)));
    trials
}

/// Returns the limit to name, if any gains alone.
fn bottleneck<W: Work>(better: Better, levers: &[Lever<W>], tried: &[Tried]) -> Option<usize> {
    let kind = |index: usize| levers[index].limit.kind;
    let counts = |index: &usize| tried[*index].gain >= THRESHOLD;
    let (links, others): (Vec<usize>, Vec<usize>) = match better {
        Better::Higher => (0..levers.len()).filter(counts).partition(|at| kind(*at).is_link()),
        Better::Lower => (Vec::new(), (0..levers.len()).filter(counts).collect()),
    };
    let most = |indexes: &[usize]| indexes.iter().map(|at| tried[*at].gain).fold(0.0, f64::max);
    let (of_links, of_others) = (most(&links), most(&others));
    // Each limit is a separate part of a latency, so two never cure the same part.
    let share = if better == Better::Higher { SAME_SHARE } else { 0.0 };
    let same = |gain: f64| gain - (gain * share).max(SAME);
    let is_link = of_others < CLEAR && same(of_links) > of_others;
    let (candidates, gain) = if is_link { (links, of_links) } else { (others, of_others) };
    let candidates = candidates.into_iter().filter(|at| tried[*at].gain >= same(gain));
    candidates.min_by_key(|at| kind(*at))
}

/// Result of lifting limits.
#[derive(Clone, Copy, Debug)]
struct Tried {
    figure: Figure,
    gain: f64,
}

struct Search<'a> {
    runs: AtomicUsize,
    watch: &'a (dyn Fn(usize) + Sync),
}

impl Search<'_> {
    fn counted<T, E>(&self, ran: Result<T, E>) -> Result<T, E> {
        let ran = ran?;
        (self.watch)(self.runs.fetch_add(1, Ordering::Relaxed) + 1);
        Ok(ran)
    }

    /// Returns the run that is explained in place of another, with its figure and account: the
    /// first that is [`CLOSE`] to the measured one, or else the closest.
    fn in_place_of<W: Explainable>(
        &self,
        scenario: &Scenario<W>,
        measured: Option<Figure>,
    ) -> Result<(Short<Scenario<W>>, Made), ExplainError> {
        let mut closest: Option<(f64, Short<Scenario<W>>, Made)> = None;
        for short in W::shortened(scenario) {
            let made = self.counted(made(&short.0))?;
            let off = measured.map_or(0.0, |measured| made.0.off(measured).abs());
            if off <= CLOSE {
                return Ok((short, made));
            }
            if closest.as_ref().is_none_or(|(least, ..)| off < *least) {
                closest = Some((off, short, made));
            }
        }
        match closest {
            Some((_, short, made)) => Ok((short, made)),
            None => Ok(((scenario.clone(), None), self.counted(made(scenario))?)),
        }
    }
}

/// The search for one step: limits of a scenario, whose figure with all of them is `before`.
struct Round<'a, W: Work> {
    search: &'a Search<'a>,
    scenario: &'a Scenario<W>,
    before: Figure,
    levers: &'a [Lever<W>],
}

impl<W: Work> Round<'_, W> {
    /// Returns the scenario without the limits of some levers.
    fn without(&self, lifted: &[usize]) -> Result<Scenario<W>, ExplainError> {
        let lift = |scenario, index: &usize| (self.levers[*index].lift)(&scenario);
        lifted.iter().try_fold(self.scenario.clone(), lift)
    }

    /// Makes one run without each of `sets`, which are indexes of levers. Runs are parallel, but
    /// the results do not depend on that.
    fn all(&self, sets: &[Vec<usize>]) -> Result<Vec<Tried>, ExplainError> {
        let levers = self.levers;
        if self.search.runs.load(Ordering::Relaxed) + sets.len() > MAX_RUNS {
            return Err(ExplainError::TooManyLimits { limits: levers.len(), runs: MAX_RUNS });
        }
        let tried = |set: &Vec<usize>| {
            let figure = self.without(set).and_then(|scenario| Ok(scenario.figure()?));
            let figure = self.search.counted(figure).map_err(|error| {
                let words = set.iter().map(|index| levers[*index].limit.words.as_str());
                let limits = words.collect::<Vec<_>>().join(", ");
                ExplainError::Without { limits, source: Box::new(error) }
            })?;
            Ok(Tried { figure, gain: gain(self.before, figure) })
        };
        // The first error in order is returned, whichever came first.
        parallel::map(sets, tried).into_iter().collect()
    }

    /// Returns the gain without some limits together.
    fn gain(&self, lifted: &[usize]) -> Result<f64, ExplainError> {
        Ok(self.all(&[lifted.to_vec()])?[0].gain)
    }

    /// Makes one run without each limit. Those of [`SPARE`] are lifted together first, and alone
    /// only if that changes the figure.
    fn each_alone(&self) -> Result<Vec<Tried>, ExplainError> {
        let is_spare = |index: &usize| SPARE.contains(&self.levers[*index].limit.kind);
        let (spare, others): (Vec<usize>, Vec<usize>) = (0..self.levers.len()).partition(is_spare);
        let alone = |indexes: &[usize]| indexes.iter().map(|index| vec![*index]).collect();
        let mut sets: Vec<Vec<usize>> = alone(&others);
        sets.extend((!spare.is_empty()).then(|| spare.clone()));
        let mut tried = self.all(&sets)?;
        let together = tried.split_off(others.len());
        let of_spare = match together[..] {
            [same] if spare.len() == 1 || same.figure == self.before => vec![same; spare.len()],
            _ => self.all(&alone(&spare))?,
        };
        let mut tried: Vec<(usize, Tried)> =
            others.into_iter().zip(tried).chain(spare.into_iter().zip(of_spare)).collect();
        tried.sort_by_key(|(index, _)| *index);
        Ok(tried.into_iter().map(|(_, tried)| tried).collect())
    }

    /// Returns the limits to name, if any: one, or several together.
    fn bottleneck(&self, tried: &[Tried]) -> Result<Option<Vec<usize>>, ExplainError> {
        let kind = |index: usize| self.levers[index].limit.kind;
        let alone = bottleneck(self.before.better, self.levers, tried);
        let least = match alone {
            None => CLEAR,
            // A run that waits for two things gains a little if either comes sooner.
            Some(index) if self.before.better == Better::Higher && kind(index).is_latency() => {
                tried[index].gain.max(CLEAR)
            }
            Some(index) => return Ok(Some(vec![index])),
        };
        // As with a single limit, a faster link and a shorter latency are named last.
        let cures: [fn(LimitKind) -> bool; 3] =
            [|kind| kind.is_link() || kind.is_latency(), LimitKind::is_latency, |_| false];
        let sets = cures.iter().take(if alone.is_none() { 3 } else { 2 });
        for is_cure in sets {
            let set: Vec<usize> = (0..self.levers.len()).filter(|at| !is_cure(kind(*at))).collect();
            if let Some(several) = self.together(&set, least)? {
                return Ok(Some(several));
            }
        }
        Ok(alone.map(|index| vec![index]))
    }

    /// Returns the limits of `every` that limit a run together when none gains alone: each takes
    /// away most of the gain if it alone is put back. All together have to gain `least`.
    fn together(&self, every: &[usize], least: f64) -> Result<Option<Vec<usize>>, ExplainError> {
        if every.len() < 2 {
            return Ok(None);
        }
        let most = self.gain(every)?;
        if most < least {
            return Ok(None);
        }
        let but = |left: &usize| every.iter().copied().filter(|index| index != left).collect();
        let sets: Vec<Vec<usize>> = every.iter().map(but).collect();
        let put_back = self.all(&sets)?;
        let kept = most * KEPT_SHARE;
        let holding = every.iter().zip(&put_back).filter(|(_, tried)| tried.gain < kept);
        let holding: Vec<usize> = holding.map(|(index, _)| *index).collect();
        if self.gain(&holding)? >= kept {
            return Ok(Some(holding));
        }
        self.least(every, kept).map(Some)
    }

    /// Returns a smallest set of limits that together gain `gain`. The least specific are left out
    /// first.
    fn least(&self, every: &[usize], gain: f64) -> Result<Vec<usize>, ExplainError> {
        let mut lifted = every.to_vec();
        let mut order = lifted.clone();
        order.sort_by_key(|index| std::cmp::Reverse(self.levers[*index].limit.kind));
        for left in order {
            let fewer: Vec<usize> = lifted.iter().copied().filter(|index| *index != left).collect();
            if self.gain(&fewer)? >= gain {
                lifted = fewer;
            }
        }
        Ok(lifted)
    }
}

/// Least share of the time for which a wait is mentioned.
const LEAST_WAIT: f64 = 0.1;
/// A wait is a consequence of a limit if at most this part of its share remains without the limit.
const LEFT: f64 = 0.5;

/// Returns the longest wait in an account, unless one of the limits is known by that wait.
fn to_explain(account: &Account, limits: &[LimitKind]) -> Option<Use> {
    let idle = account.uses.iter().filter(|entry| entry.what.is_idle());
    let longest = idle.max_by(|a, b| a.share.total_cmp(&b.share))?;
    let is_named = limits.iter().any(|kind| wait_of(*kind).contains(&longest.what));
    let is_known = longest.what != Use::NothingToSend;
    (longest.share >= LEAST_WAIT && is_known && !is_named).then_some(longest.what)
}

/// Returns the wait that a bottleneck causes, by the accounts of a run and of the same run without
/// it; `None` if they are of different directions, or the wait remains.
fn consequence(what: Use, account: &Account, without: &Account) -> Option<Consequence> {
    let (share, share_without) = (account.share(what), without.share(what));
    let has_gone = account.direction == without.direction && share_without <= LEFT * share;
    has_gone.then_some(Consequence { what, share, share_without })
}

/// Returns the waits that a limit causes directly at a sender.
const fn wait_of(kind: LimitKind) -> &'static [Use] {
    match kind {
        LimitKind::DescriptorGap | LimitKind::DescriptorFetch => &[Use::Descriptor],
        LimitKind::ReadingDescriptors => &[Use::Descriptor, Use::NoTag],
        LimitKind::Outstanding
        | LimitKind::LoadsInFlight
        | LimitKind::Processor
        | LimitKind::SystemCall
        | LimitKind::Registration
        | LimitKind::Notification => &[Use::Host, Use::Descriptor],
        LimitKind::IdleClocks | LimitKind::Datapath => &[Use::SenderPace],
        LimitKind::Tags => &[Use::NoTag],
        LimitKind::PeerWindow => &[Use::PeerCredit],
        LimitKind::SlowReader => &[Use::PeerCredit, Use::NoCredit, Use::ReceiverBusy],
        LimitKind::MemoryWrite
        | LimitKind::PeerToPeer
        | LimitKind::PeerReads
        | LimitKind::SocketHop
        | LimitKind::Crossbar
        | LimitKind::PartialLines => &[Use::NoCredit, Use::ReceiverBusy],
        LimitKind::PostedCredits
        | LimitKind::NonPostedCredits
        | LimitKind::CompletionCredits
        | LimitKind::CreditReturn => &[Use::NoCredit],
        LimitKind::Iotlb => &[Use::Translation],
        LimitKind::ReplayBuffer => &[Use::ReplayBuffer],
        LimitKind::BitErrors => &[Use::Retraining],
        _ => &[],
    }
}

#[cfg(test)]
#[path = "search_tests.rs"]
mod tests;
