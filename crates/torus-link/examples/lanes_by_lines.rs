// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lanes of a port that are told by lines on standard input what happens, and say on standard
//! output what they do: the reference of the gateware's tests (`gateware/tb/link_reference.py`).
//!
//! The first line is `align LANES`, `bring-up LANES CHANNEL_DATAGRAMS SESSION LONG BLOCKS` (LONG
//! 1 if datagrams are long, BLOCKS 1 for 64b/66b, else 0), `align-blocks LANES`, `columns LANES` or
//! `rows LANES CHANNEL_DATAGRAMS LONG`.
//!
//! `align`: each line is a symbol time, three digits a lane: ten line bits as a hexadecimal number,
//! or `---` without a signal; or the line is `r`: alignment begins anew. The answer is the deskewed
//! column, three digits a lane: 0 data, 1 control, 2 error; the byte. It is `-` without alignment.
//!
//! `bring-up`: each line is a clock, with words in this order, each if it happens: `e` enabled, `d`
//! disabled, `r` trains again, `sN` a training set of stage N has been sent, and always the column
//! that comes: `c` with digits as above, or `c-` without alignment. With 64b/66b a column comes if
//! it does, else `q`, and before it `w1` begins a row without errors, `w0` one with, `w-` one
//! without deskew. The answer has, divided by `|`: 1 if alignment begins anew; 1 if the link was
//! lost; the state (0 disabled, 1 align, 2 confirm, 3 up, 4 failed), session, session seen and
//! stage of the set to send, datagrams of the far receive buffers once known, and counts, at most
//! those that matter: good sets, those that know this end, sent sets, idle columns, misfits,
//! errors, skewed sets, damaged frames, columns in this state and since the last good set.
//!
//! `align-blocks`: each line is the time of a row, `r` if alignment begins anew before it, then for
//! each lane 66 line bits as a hexadecimal number, the bit that came first lowest, or `-` without a
//! signal. The answer is 1 if all lanes are aligned, else 0, and the deskewed row: for each lane
//! `d` or `c` (data, control) and the eight bytes, first byte first, or `e`. It is `-` before.
//!
//! `columns`: each line is a row, as `align-blocks` answers it; the answer is its eight columns, as
//! those of `align`, or `-` where nothing is to be taken.
//!
//! `rows`: each line is the time of a row that is sent, `-` if the port is disabled. It begins with
//! `up`, or with session, session seen and stage of the training set that may begin, divided by
//! `:`; then comes for each lane the frame that waits where the lane's block begins, its bytes as
//! hexadecimal digits, or `-`. The answer is the line bits of each lane, as `align-blocks` takes
//! them, and 1 if a set of stage 2 ends with the row, else 0. It is `-` for a disabled port.

use crosslane_torus_link::Frame;
use crosslane_torus_link::block::{self, Block, Columns, Content, Rows};
use crosslane_torus_link::code::{Code, Symbol};
use crosslane_torus_link::lanes::{
    Aligner, BringUp, Change, Deframer, MAX_LANES, PortState, Received, TrainingSet,
};
use std::error::Error;
use std::io::{BufRead as _, BufWriter, Write as _};

type Outcome<T> = Result<T, Box<dyn Error>>;
type Symbols = [Received; MAX_LANES];

fn digits(text: &str) -> impl Iterator<Item = Outcome<&str>> {
    text.as_bytes().chunks(3).map(|digits| Ok(std::str::from_utf8(digits)?))
}

fn column(text: &str) -> Outcome<Symbols> {
    let mut column = [None; MAX_LANES];
    for (lane, symbol) in column.iter_mut().zip(digits(text)) {
        let (kind, byte) = symbol?.split_at(1);
        let byte = u8::from_str_radix(byte, 16)?;
        *lane = match kind {
            "0" => Some(Symbol::Data(byte)),
            "1" => Some(Symbol::Control(byte)),
            _ => None,
        };
    }
    Ok(column)
}

fn shown(column: &[Received]) -> String {
    let digits = column.iter().map(|symbol| match symbol {
        Some(Symbol::Data(byte)) => format!("0{byte:02x}"),
        Some(Symbol::Control(byte)) => format!("1{byte:02x}"),
        None => "200".into(),
    });
    digits.collect()
}

fn align(aligner: &mut Aligner, lanes: usize, line: &str) -> Outcome<String> {
    if line == "r" {
        aligner.restart();
        return Ok("-".into());
    }
    let mut codes = [None; MAX_LANES];
    for (lane, code) in codes.iter_mut().zip(digits(line)) {
        let code = code?;
        *lane = if code == "---" { None } else { Some(Code(u16::from_str_radix(code, 16)?)) };
    }
    Ok(aligner.take(&codes).map_or_else(|| "-".into(), |column| shown(&column[..lanes])))
}

fn bits(text: &str) -> Outcome<Option<Block>> {
    if text == "-" {
        return Ok(None);
    }
    Ok(Some(Block::from_bits(u128::from_str_radix(text, 16)?)))
}

fn align_blocks(aligner: &mut block::Aligner, lanes: usize, line: &str) -> Outcome<String> {
    let line = match line.strip_prefix("r ") {
        Some(line) => {
            aligner.restart();
            line
        }
        None => line,
    };
    let mut words = [None; MAX_LANES];
    for (word, text) in words.iter_mut().zip(line.split(' ')) {
        *word = bits(text)?;
    }
    let row = aligner.take(&words);
    let shown = row.blocks.map(|blocks| {
        let blocks = blocks[..lanes].iter().map(|block| match block {
            Some(Content::Data(bytes)) => format!("d{:016x}", u64::from_be_bytes(*bytes)),
            Some(Content::Control(bytes)) => format!("c{:016x}", u64::from_be_bytes(*bytes)),
            None => "e".into(),
        });
        blocks.collect::<Vec<_>>().join(" ")
    });
    Ok(format!("{} {}", u8::from(row.is_aligned), shown.as_deref().unwrap_or("-")))
}

fn columns(reader: &mut Columns, lanes: usize, line: &str) -> Outcome<String> {
    let mut row = [None; MAX_LANES];
    for (block, text) in row.iter_mut().zip(line.split(' ')) {
        let (kind, bytes) = text.split_at(1);
        *block = match kind {
            "e" => None,
            _ => {
                let bytes = u64::from_str_radix(bytes, 16)?.to_be_bytes();
                Some(if kind == "d" { Content::Data(bytes) } else { Content::Control(bytes) })
            }
        };
    }
    let columns = reader
        .take(&row)
        .map(|column| column.map_or_else(|| "-".into(), |column| shown(&column[..lanes])));
    Ok(columns.join(" "))
}

fn waiting(text: &str) -> Outcome<Option<Frame>> {
    if text == "-" {
        return Ok(None);
    }
    let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2).unwrap_or_default(), 16);
    let bytes = (0..text.len()).step_by(2).map(byte).collect::<Result<Vec<u8>, _>>()?;
    Ok(Some(Frame::decode(&bytes)?))
}

fn row(rows: &mut Rows, lanes: usize, ours: TrainingSet, line: &str) -> Outcome<String> {
    let (first, frames) = line.split_once(' ').unwrap_or((line, ""));
    let training = match first {
        "-" => {
            *rows = Rows::new(lanes);
            return Ok("-".into());
        }
        "up" => None,
        _ => {
            let numbers = first.split(':').map(str::parse).collect::<Result<Vec<u16>, _>>()?;
            let [session, seen, stage] = numbers[..] else {
                return Err(format!("no training set: {first}").into());
            };
            Some(TrainingSet { session, seen, stage: stage.try_into()?, ..ours })
        }
    };
    let mut frames = frames.split(' ').map(waiting).collect::<Outcome<Vec<_>>>()?;
    let sent = rows.next(training, |lane| frames.get_mut(lane).and_then(Option::take));
    let mut shown: Vec<String> =
        sent.blocks[..lanes].iter().map(|block| format!("{:x}", block.bits())).collect();
    let is_stage_2 = sent.ended.is_some_and(|set| set.stage == 2);
    shown.push(u8::from(is_stage_2).to_string());
    Ok(shown.join(" "))
}

struct Training {
    lanes: usize,
    has_blocks: bool,
    bring_up: BringUp,
    deframer: Deframer,
    far_channel_datagrams: u16,
}

impl Training {
    fn new(numbers: [u16; 5]) -> Self {
        let [lanes, channel_datagrams, session, long, blocks] = numbers;
        let (lanes, is_long, has_blocks) = (usize::from(lanes), long == 1, blocks == 1);
        let mut bring_up = BringUp::new(lanes, channel_datagrams, session);
        let mut deframer = Deframer::new(lanes);
        if is_long {
            bring_up = bring_up.with_long_datagrams();
            deframer = deframer.with_long_datagrams();
        }
        if has_blocks {
            bring_up = bring_up.with_blocks();
        }
        Self { lanes, has_blocks, bring_up, deframer, far_channel_datagrams: 0 }
    }

    fn follow(&mut self, change: Option<Change>) {
        if let Some(Change::Up { channel_datagrams }) = change {
            self.far_channel_datagrams = channel_datagrams;
        }
    }

    fn is_off(&self) -> bool {
        matches!(self.bring_up.state(), PortState::Disabled | PortState::Failed)
    }

    /// Counts a column or a row; returns whether alignment begins anew.
    fn count(&mut self, is_whole: Option<bool>) -> bool {
        let (restarts, change) = self.bring_up.column(is_whole);
        self.follow(change);
        restarts
    }

    /// Takes a column, as a port does; returns whether alignment begins anew.
    fn take(&mut self, column: Option<Symbols>) -> bool {
        if self.is_off() {
            return false;
        }
        let is_whole = column.map(|column| column[..self.lanes].iter().all(Option::is_some));
        let restarts = !self.has_blocks && self.count(is_whole);
        let events = column.map_or([None, None], |column| self.deframer.take(&column));
        for event in events.into_iter().flatten() {
            let change = self.bring_up.event(&event);
            self.follow(change);
        }
        restarts
    }

    fn clock(&mut self, line: &str) -> Outcome<String> {
        let mut restarts = false;
        let losses = self.bring_up.losses();
        for word in line.split(' ') {
            let (kind, rest) = word.split_at(1);
            match kind {
                "e" => self.bring_up.enable(),
                "d" => {
                    self.bring_up.disable();
                    self.deframer.restart();
                }
                "r" => {
                    self.bring_up.retrain();
                }
                "s" => {
                    let change = self.bring_up.set_sent(rest.parse()?);
                    self.follow(change);
                }
                "w" => {
                    let is_whole = if rest == "-" { None } else { Some(rest == "1") };
                    restarts = !self.is_off() && self.count(is_whole);
                }
                "q" => {}
                "c" if self.has_blocks => {
                    self.take(Some(column(rest)?));
                }
                "c" if rest == "-" => restarts = self.take(None),
                "c" => restarts = self.take(Some(column(rest)?)),
                _ => return Err(format!("nothing is called {word}").into()),
            }
        }
        if restarts {
            self.deframer.restart();
        }
        let set = self.bring_up.training_set();
        let progress = self.bring_up.progress();
        let now = [
            self.bring_up.state() as u32,
            set.session.into(),
            set.seen.into(),
            set.stage.into(),
            self.far_channel_datagrams.into(),
            progress.good_sets.min(8),
            progress.knowing_sets.min(8),
            progress.sent_sets.min(16),
            progress.idle_in_a_row,
            progress.misfits,
            progress.errors,
            progress.skewed,
            progress.damaged_in_a_row,
            progress.columns_in_state.min(2_047),
            progress.columns_since_good,
        ];
        let now = now.map(|number| number.to_string()).join(" ");
        let was_lost = self.bring_up.losses() - losses;
        Ok(format!("{}|{was_lost}|{now}", u8::from(restarts)))
    }
}

fn main() -> Outcome<()> {
    let mut lines = std::io::stdin().lock().lines();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let first = lines.next().ok_or("no first line")??;
    let mut words = first.split(' ');
    let kind = words.next().unwrap_or_default();
    let numbers: Vec<u16> = words.map(str::parse).collect::<Result<_, _>>()?;
    match (kind, &numbers[..]) {
        ("align", [lanes]) => {
            let mut aligner = Aligner::new((*lanes).into());
            for line in lines {
                writeln!(out, "{}", align(&mut aligner, (*lanes).into(), &line?)?)?;
            }
        }
        ("bring-up", [lanes, datagrams, session, long, blocks]) => {
            let mut training = Training::new([*lanes, *datagrams, *session, *long, *blocks]);
            for line in lines {
                writeln!(out, "{}", training.clock(&line?)?)?;
            }
        }
        ("align-blocks", [lanes]) => {
            let mut aligner = block::Aligner::new((*lanes).into());
            for line in lines {
                writeln!(out, "{}", align_blocks(&mut aligner, (*lanes).into(), &line?)?)?;
            }
        }
        ("columns", [lanes]) => {
            let mut reader = Columns::new((*lanes).into());
            for line in lines {
                writeln!(out, "{}", columns(&mut reader, (*lanes).into(), &line?)?)?;
            }
        }
        ("rows", [lanes, datagrams, long]) => {
            let bring_up = BringUp::new((*lanes).into(), *datagrams, 1);
            let ours = TrainingSet { has_long_datagrams: *long == 1, ..bring_up.training_set() };
            let mut rows = Rows::new((*lanes).into());
            for line in lines {
                writeln!(out, "{}", row(&mut rows, (*lanes).into(), ours, &line?)?)?;
            }
        }
        _ => return Err(format!("the first line is none of these: {first}").into()),
    }
    Ok(out.flush()?)
}
