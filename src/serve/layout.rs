//! Where the graph's nodes are drawn: d3's force-directed layout, by fjadra.
//!
//! A layout depends on the graph alone, so that a wiki looks the same each time. A large one takes seconds: what is drawn
//! first is a start by folders, and a thread refines it while it is looked at. What came of it is kept in `.wiki-sync/layout`.
//!
//! Where links change meanwhile, the layout goes on from where it was, with what came put beside what it is linked with: a
//! wiki that is written all day finds its shape as soon as one that rests, and does not jump.

use std::collections::{BTreeMap, HashMap};
use std::f64::consts::PI;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;

use fjadra::{Link, ManyBody, PositionX, PositionY, Simulation, SimulationBuilder};

use super::source::Source;
use crate::model::{ContentSha, Failure};
use crate::query::graph::map::{Map, version};
use crate::state::StateDir;

/// Nodes that are laid out at most, and drawn.
pub(super) const MOST: usize = 20_000;
/// Changes when the same graph would be laid out otherwise.
const LAYOUT_VERSION: &str = "1";
/// Steps between two pictures of a layout that is being refined.
const STEPS: usize = 4;
/// All of the way to a layout.
const WHOLE: usize = 1000;
/// Where a layout goes on at the latest when links have changed: cool enough that nothing jumps, warm enough to take them up.
const LAST: usize = 700;

/// Where a node is.
pub(super) type Place = [f32; 2];

/// The graph with its layout.
pub(super) struct Plan {
    /// The same for graphs that are laid out the same.
    pub(super) key: String,
    pub(super) map: Map,
    drawn: Mutex<Drawn>,
    /// Whether a thread refines it.
    is_refined: AtomicBool,
}

/// A layout, finished or not.
#[derive(Clone)]
pub(super) struct Drawn {
    pub(super) places: Arc<Vec<Place>>,
    pub(super) is_done: bool,
    /// How much of the way is done, in thousandths.
    come: usize,
}

impl Plan {
    pub(super) fn drawn(&self) -> Drawn {
        self.drawn
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn draw(&self, drawn: Drawn) {
        *self.drawn.lock().unwrap_or_else(PoisonError::into_inner) = drawn;
    }
}

/// Keeps the last layout.
pub(super) struct Desk {
    /// With the graph's version at which it was loaded.
    last: Mutex<Option<(String, Arc<Plan>)>>,
    file: PathBuf,
}

impl Desk {
    pub(super) fn new(state: &StateDir) -> Self {
        Self {
            last: Mutex::default(),
            file: state.path().join("layout"),
        }
    }

    /// Returns the graph as it is now, with the layout as far as it has come. [`Self::refine`] makes it go on.
    ///
    /// # Errors
    /// When the graph cannot be read.
    pub(super) fn plan(&self, source: &dyn Source) -> Result<Arc<Plan>, Failure> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let mut db = source.graph()?;
        let version = version(&db)?;
        if let Some((_, plan)) = last.as_ref().filter(|(of, _)| *of == version) {
            return Ok(Arc::clone(plan));
        }
        let map = Map::load(&mut db, MOST)?;
        // Another text of a page is no other graph.
        if let Some((of, plan)) = last.as_mut().filter(|(_, plan)| plan.map == map) {
            *of = version;
            return Ok(Arc::clone(plan));
        }
        let pages_dir = source.wiki().pages_dir();
        let key = key(&map);
        let drawn = match &*last {
            // Titles or tags changed, no links.
            Some((_, before)) if before.key == key => before.drawn(),
            before => self.kept(&key, map.spots.len()).unwrap_or_else(|| {
                let before = before.as_ref().map(|(_, before)| &**before);
                begun(&map, pages_dir, before)
            }),
        };
        let plan = Arc::new(Plan {
            key,
            map,
            drawn: Mutex::new(drawn),
            is_refined: AtomicBool::new(false),
        });
        *last = Some((version, Arc::clone(&plan)));
        Ok(plan)
    }

    /// Sees to it that a plan's layout is refined to the end.
    pub(super) fn refine(&self, plan: &Arc<Plan>) {
        if plan.drawn().is_done || plan.is_refined.swap(true, Ordering::Relaxed) {
            return;
        }
        let (plan, file) = (Arc::downgrade(plan), self.file.clone());
        // Without a thread the start is all there is.
        let _ = thread::Builder::new()
            .name("layout".into())
            .spawn(move || refine(&plan, &file));
    }

    /// Returns the last plan, if it is this one.
    pub(super) fn of_key(&self, key: &str) -> Option<Arc<Plan>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = last.as_ref().map(|(_, plan)| Arc::clone(plan));
        plan.filter(|plan| plan.key == key)
    }

    /// Reads the layout that was kept, where it is of this graph.
    fn kept(&self, key: &str, spots: usize) -> Option<Drawn> {
        let bytes = fs::read(&self.file).ok()?;
        let places = bytes.strip_prefix(key.as_bytes())?.strip_prefix(b"\n")?;
        let (numbers, rest) = places.as_chunks::<4>();
        let numbers: Vec<_> = numbers.iter().map(|it| f32::from_le_bytes(*it)).collect();
        let (places, odd) = numbers.as_chunks::<2>();
        let is_whole = rest.is_empty() && odd.is_empty() && places.len() == spots;
        let is_sound = numbers.iter().all(|number| number.is_finite());
        (is_whole && is_sound).then(|| Drawn {
            places: Arc::new(places.to_vec()),
            is_done: true,
            come: WHOLE,
        })
    }
}

/// Returns how a layout begins: where it was before, what is new beside what it is linked with; else by folders.
#[allow(clippy::cast_precision_loss)] // an angle
fn begun(map: &Map, pages_dir: &str, before: Option<&Plan>) -> Drawn {
    let mut places = start(map, pages_dir);
    let is_done = map.links.is_empty() && map.spots.len() < 2;
    let Some(before) = before else {
        return Drawn {
            places: Arc::new(places),
            is_done,
            come: 0,
        };
    };
    let drawn = before.drawn();
    let spots = before.map.spots.iter().zip(drawn.places.iter());
    let known: HashMap<_, _> = spots
        .map(|(spot, place)| ((spot.is_missing, spot.id.as_str()), *place))
        .collect();
    let was = map.spots.iter();
    let was: Vec<_> = was
        .map(|spot| known.get(&(spot.is_missing, spot.id.as_str())).copied())
        .collect();
    for (place, was) in places.iter_mut().zip(&was) {
        *place = was.unwrap_or(*place);
    }
    for &(from, to) in &map.links {
        let (from, to) = (from as usize, to as usize);
        for (new, old) in [(from, to), (to, from)] {
            if let (None, Some([x, y])) = (was[new], was[old]) {
                // Never two in one place.
                let (sin, cos) = (new as f32).sin_cos();
                places[new] = [x + 20.0 * cos, y + 20.0 * sin];
            }
        }
    }
    let new = was.iter().filter(|was| was.is_none()).count();
    // A graph that is mostly new is a new one.
    let is_new = new * 2 > was.len();
    Drawn {
        places: Arc::new(places),
        is_done,
        come: if is_new { 0 } else { drawn.come.min(LAST) },
    }
}

/// Refines a plan's layout to the end, and keeps it; ends when nobody has the plan any more.
fn refine(plan: &Weak<Plan>, file: &std::path::Path) {
    let Some(first) = plan.upgrade() else { return };
    let places = first.drawn().places;
    let (key, steps) = (first.key.clone(), steps(places.len()));
    let mut done = steps * first.drawn().come / WHOLE;
    let mut simulation = simulation(&places, &first.map.links, steps, done);
    drop(first);
    while done < steps {
        simulation.tick(STEPS);
        done += STEPS;
        let Some(plan) = plan.upgrade() else { return };
        let places = Arc::new(places_of(&simulation));
        if places.iter().flatten().any(|number| !number.is_finite()) {
            // Better the last good one than none.
            let places = plan.drawn().places;
            plan.draw(Drawn {
                places,
                is_done: true,
                come: WHOLE,
            });
            return;
        }
        let is_done = done >= steps;
        let come = done.min(steps) * WHOLE / steps;
        plan.draw(Drawn {
            places,
            is_done,
            come,
        });
    }
    let Some(plan) = plan.upgrade() else { return };
    let mut bytes = key.into_bytes();
    bytes.push(b'\n');
    for number in plan.drawn().places.iter().flatten() {
        bytes.extend(number.to_le_bytes());
    }
    // What cannot be kept is made again.
    let keep = || -> std::io::Result<()> {
        let folder = file.parent().unwrap_or(file);
        let mut made = tempfile::NamedTempFile::new_in(folder)?;
        made.write_all(&bytes)?;
        made.persist(file)?;
        Ok(())
    };
    let _ = keep();
}

/// Lays out a small graph at once.
pub(super) fn at_once(map: &Map, pages_dir: &str) -> Vec<Place> {
    const STEPS: usize = 150;
    let places = start(map, pages_dir);
    let mut simulation = simulation(&places, &map.links, STEPS, 0);
    simulation.tick(STEPS);
    places_of(&simulation)
}

/// How many steps a layout takes: about the same time whatever its size.
fn steps(spots: usize) -> usize {
    (1_000_000 / spots.max(1)).clamp(32, 240)
}

/// Returns the forces between nodes, as after so many of the steps.
fn simulation(places: &[Place], links: &[(u32, u32)], steps: usize, done: usize) -> Simulation {
    /// At which a layout counts as cold.
    const COLD: f64 = 0.001;
    #[allow(clippy::cast_precision_loss)] // some hundreds
    let (steps, done) = (steps as f64, done as f64);
    let decay = 1.0 - COLD.powf(1.0 / steps);
    let spots = places.iter().map(|place| place.map(f64::from));
    let links = links.iter().map(|&(from, to)| (from as usize, to as usize));
    SimulationBuilder::new()
        .with_alpha(COLD.powf(done / steps))
        .with_alpha_min(COLD)
        .with_alpha_decay(decay)
        .build(spots)
        .add_force("charge", ManyBody::new().strength(-40.0))
        .add_force("link", Link::new(links).distance(36.0))
        // Else what hangs together with nothing drifts away.
        .add_force("x", PositionX::new().strength(0.06))
        .add_force("y", PositionY::new().strength(0.06))
}

#[allow(clippy::cast_possible_truncation)] // places on a screen
fn places_of(simulation: &Simulation) -> Vec<Place> {
    let places = simulation.positions();
    places.map(|[x, y]| [x as f32, y as f32]).collect()
}

/// Returns the folder that a node is drawn with: the first below the pages' folder; none for what is missing.
pub(super) fn folder<'m>(map: &'m Map, spot: usize, pages_dir: &str) -> Option<&'m str> {
    let spot = map.spots.get(spot).filter(|spot| !spot.is_missing)?;
    let inner = spot.id.strip_prefix(pages_dir)?.strip_prefix('/')?;
    Some(inner.split_once('/').map_or("", |(folder, _)| folder))
}

/// Places nodes by their folders: each folder a disc, the largest in the middle.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // places on a screen
fn start(map: &Map, pages_dir: &str) -> Vec<Place> {
    /// Between two nodes.
    const STEP: f64 = 14.0;
    let turn = PI * (3.0 - 5.0_f64.sqrt());
    let mut groups: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for spot in 0..map.spots.len() {
        groups
            .entry(folder(map, spot, pages_dir))
            .or_default()
            .push(spot);
    }
    let mut groups: Vec<_> = groups.into_values().collect();
    groups.sort_by_key(|spots| (std::cmp::Reverse(spots.len()), spots[0]));
    let mut places = vec![[0.0; 2]; map.spots.len()];
    let mut before = 0.0;
    for (number, spots) in groups.iter().enumerate() {
        let size = spots.len() as f64;
        let distance = match number {
            0 => 0.0,
            _ => STEP * 1.3 * (f64::sqrt(before) + f64::sqrt(size)),
        };
        let (sin, cos) = (number as f64 * turn).sin_cos();
        for (at, &spot) in spots.iter().enumerate() {
            let radius = STEP * (at as f64 + 0.5).sqrt();
            let (y, x) = (at as f64 * turn).sin_cos();
            places[spot] = [
                (distance * cos + radius * x) as f32,
                (distance * sin + radius * y) as f32,
            ];
        }
        before += size;
    }
    places
}

/// Returns a text that is the same for graphs that are laid out the same.
fn key(map: &Map) -> String {
    let mut text = String::from(LAYOUT_VERSION);
    for spot in &map.spots {
        text.push('\0');
        text.push_str(if spot.is_missing { "?" } else { "" });
        text.push_str(&spot.id);
    }
    for (from, to) in &map.links {
        let _ = write!(text, "\0{from} {to}");
    }
    ContentSha::of(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::graph::map::Spot;

    fn map(pages: u32) -> Map {
        let spot = |at: u32| Spot {
            id: format!("w/f{}/p{at:05}.md", at % 3),
            title: String::new(),
            is_missing: false,
            tag: None,
        };
        Map {
            spots: (0..pages).map(spot).collect(),
            links: (1..pages).map(|at| (at, at / 4)).collect(),
            left_out: 0,
        }
    }

    #[test]
    fn the_same_graph_is_laid_out_the_same_and_linked_nodes_come_near() {
        let map = map(60);
        let places = at_once(&map, "w");
        assert_eq!(places, at_once(&map, "w"));
        let far = |a: usize, b: usize| {
            let ([x, y], [u, v]) = (places[a], places[b]);
            (x - u).hypot(y - v)
        };
        let linked = map.links.iter().map(|&(a, b)| far(a as usize, b as usize));
        let linked = linked.sum::<f32>() / 59.0;
        let all = (1..60).map(|at| far(at, (at * 7 + 3) % 60)).sum::<f32>() / 59.0;
        assert!(linked * 1.5 < all, "{linked} {all}");
        assert_ne!(key(&map), key(&self::map(61)));
    }

    #[test]
    fn two_nodes_never_start_in_one_place() {
        let places = start(&map(500), "w");
        for (at, one) in places.iter().enumerate() {
            for other in &places[at + 1..] {
                assert!((one[0] - other[0]).hypot(one[1] - other[1]) > 1.0);
            }
        }
    }

    fn plan(map: Map, drawn: Drawn) -> Plan {
        Plan {
            key: key(&map),
            drawn: Mutex::new(drawn),
            is_refined: AtomicBool::new(false),
            map,
        }
    }

    #[test]
    fn a_layout_goes_on_where_links_keep_changing_and_comes_to_its_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut before = plan(map(200), begun(&map(200), "w", None));
        for pages in 201..260 {
            // As far as a thread comes between two edits.
            let drawn = before.drawn();
            let steps = steps(drawn.places.len());
            let done = steps * drawn.come / WHOLE;
            let mut simulation = simulation(&drawn.places, &before.map.links, steps, done);
            simulation.tick(STEPS);
            before.draw(Drawn {
                places: Arc::new(places_of(&simulation)),
                is_done: false,
                come: (done + STEPS) * WHOLE / steps,
            });
            let drawn = before.drawn();
            let map = map(pages);
            let next = begun(&map, "w", Some(&before));
            assert_eq!(next.places[..200], drawn.places[..200], "nothing jumps");
            assert_eq!(next.come, drawn.come.min(LAST));
            before = plan(map, next);
        }
        assert_eq!(before.drawn().come, LAST, "it came on");
        let last = Arc::new(before);
        refine(&Arc::downgrade(&last), &folder.path().join("layout"));
        assert!(last.drawn().is_done);
    }

    #[test]
    fn a_layout_that_was_kept_serves_its_own_graph_alone() {
        let root = tempfile::tempdir().expect("a folder");
        let state = StateDir::of(root.path());
        state.create().expect("created");
        let desk = Desk::new(&state);
        let map = map(50);
        let plan = Arc::new(Plan {
            key: key(&map),
            drawn: Mutex::new(Drawn {
                places: Arc::new(start(&map, "w")),
                is_done: false,
                come: 0,
            }),
            is_refined: AtomicBool::new(false),
            map,
        });
        refine(&Arc::downgrade(&plan), &desk.file);
        let drawn = plan.drawn();
        assert!(drawn.is_done);
        let kept = desk.kept(&plan.key, 50).expect("kept");
        assert_eq!(kept.places, drawn.places);
        assert!(desk.kept(&plan.key, 49).is_none());
        assert!(desk.kept("another", 50).is_none());
        let mut bytes = fs::read(&desk.file).expect("a file");
        bytes.truncate(bytes.len() - 3);
        fs::write(&desk.file, bytes).expect("written");
        assert!(desk.kept(&plan.key, 50).is_none(), "torn");
    }
}
