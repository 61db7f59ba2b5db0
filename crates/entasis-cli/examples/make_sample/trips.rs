//! A month of a made-up city's shared bikes: the same table on every machine, from integers and a fixed seed.

use std::sync::Arc;

use arrow_array::builder::{Int16Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray, StructArray,
    TimestampMillisecondArray, UInt8Array,
};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, TimeUnit};

const TRIPS: usize = 68_000;
const STATIONS: usize = 140;
const RIDERS: u64 = 6_000;
const BIKES: u64 = 1_500;
const HOUR_MS: i64 = 3_600_000;
/// 2024-05-01 00:00:00 UTC.
const FIRST_MS: i64 = 1_714_521_600_000;

/// Mean seconds between two trips, by hour of the day: commuters in the morning and after work.
const GAP_SECONDS: [u64; 24] =
    [150, 240, 320, 350, 280, 130, 50, 22, 16, 28, 36, 32, 28, 30, 32, 26, 19, 14, 18, 26, 38, 52, 70, 100];

const STREETS: [&str; 20] = [
    "Harbour",
    "Mill",
    "Station",
    "Cathedral",
    "Orchard",
    "Foundry",
    "Canal",
    "Museum",
    "Lindens",
    "Old Market",
    "Bridge",
    "University",
    "Theatre",
    "Quarry",
    "Lighthouse",
    "Tannery",
    "Granary",
    "Observatory",
    "Meadow",
    "Brewery",
];
const PLACES: [&str; 7] = ["Square", "Street", "Lane", "Park", "Gate", "Quay", "Hill"];
const FIRST_NAMES: [&str; 24] = [
    "anna", "ben", "clara", "david", "elif", "farid", "grace", "hugo", "ines", "jonas", "kaya", "liam", "mara", "noor",
    "olga", "pedro", "rosa", "sven", "tara", "umut", "vera", "wim", "yuki", "zoe",
];
const LAST_NAMES: [&str; 25] = [
    "adler", "baker", "costa", "dubois", "eriksen", "fischer", "garcia", "haddad", "ivanova", "jansen", "kim", "lopez",
    "moreau", "nguyen", "okafor", "petrov", "quinn", "rossi", "sato", "tanaka", "ueda", "vogel", "weber", "yilmaz",
    "zhang",
];
const MAIL_HOSTS: [&str; 5] = ["example.com", "example.org", "mail.example.net", "post.example", "uni.example.edu"];
const CAMPAIGNS: [&str; 6] = ["spring", "may-day", "commuter", "students", "night-owl", "none"];
const COMPLAINTS: [&str; 8] = [
    "brake squeaks",
    "saddle too low",
    "light flickers",
    "gear three slips",
    "flat rear tyre",
    "app lost the trip",
    "dock was full",
    "lock is stiff",
];
const PRAISE: [&str; 5] = ["otherwise fine", "nice ride", "please check", "second time this week", "thank you"];

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// Below `end`, all alike.
    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// Below `end`, small numbers much more often.
    fn skewed(&mut self, end: u64) -> u64 {
        let (one, two) = (self.below(end), self.below(end));
        one * two / end
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }
}

struct Station {
    name: String,
    /// Hundred-thousandths of a degree.
    latitude: i64,
    longitude: i64,
}

struct Trip {
    id: i64,
    started_ms: i64,
    ended_ms: i64,
    from: usize,
    to: usize,
    bike: u64,
    rider: Option<u64>,
    electric: bool,
    battery: Option<u8>,
    distance_m: u64,
    price_cents: u64,
    membership: &'static str,
    latitude: i64,
    longitude: i64,
    referrer: String,
    note: Option<String>,
    checkpoints: Vec<i16>,
}

struct Weather {
    tenths_celsius: i64,
    wind_kmh: u8,
    rain: bool,
}

/// The table: one row a trip, in the order in which the trips ended.
pub fn table() -> Result<RecordBatch, ArrowError> {
    let mut random = Random(1_900);
    let stations = stations(&mut random);
    let weather = weather(&mut random);
    let trips = trips(&mut random, &stations);
    let columns = columns(&trips, &stations, &weather);
    let schema = Schema::new(columns.iter().map(|(field, _)| field.clone()).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())
}

fn stations(random: &mut Random) -> Vec<Station> {
    (0..STATIONS)
        .map(|index| Station {
            name: format!("{} {}", STREETS[index % STREETS.len()], PLACES[index / STREETS.len()]),
            latitude: 4_771_000 + random.below(9_000) as i64,
            longitude: 912_000 + random.below(14_000) as i64,
        })
        .collect()
}

/// An hour each, for all hours in which a trip could start.
fn weather(random: &mut Random) -> Vec<Weather> {
    let mut rain = false;
    (0..24 * 60)
        .map(|hour: i64| {
            rain = if random.one_in(9) { !rain && random.one_in(2) } else { rain };
            let afternoon = 12 - (hour % 24 - 15).abs();
            Weather {
                tenths_celsius: 90 + 7 * afternoon + (hour / 24 % 9) * 6 + random.below(15) as i64
                    - if rain { 30 } else { 0 },
                wind_kmh: 4 + random.skewed(40) as u8,
                rain,
            }
        })
        .collect()
}

fn trips(random: &mut Random, stations: &[Station]) -> Vec<Trip> {
    let mut started_ms = FIRST_MS;
    let mut trips: Vec<Trip> = (0..TRIPS)
        .map(|index| {
            let hour = (started_ms / HOUR_MS % 24) as usize;
            started_ms += random.below(2_000 * GAP_SECONDS[hour]) as i64;
            trip(random, stations, 7_400_000 + index as i64, started_ms / 1_000 * 1_000)
        })
        .collect();
    trips.sort_by_key(|trip| (trip.ended_ms, trip.id));
    trips
}

fn trip(random: &mut Random, stations: &[Station], id: i64, started_ms: i64) -> Trip {
    let from = random.skewed(STATIONS as u64) as usize;
    let to = random.skewed(STATIONS as u64) as usize;
    let (one, two) = (&stations[from], &stations[to]);
    // A ten-thousandth of a degree is some ten metres; nobody rides as the crow flies.
    let apart = (one.latitude - two.latitude).unsigned_abs() + (one.longitude - two.longitude).unsigned_abs();
    let distance_m = (400 + apart * 9 / 10 + random.below(600)) / 10 * 10;
    let electric = random.below(10) < 6;
    let seconds = distance_m / if electric { 5 } else { 4 } + 30 + random.skewed(900);
    let membership = ["annual", "annual", "monthly", "day pass"][random.below(4) as usize];
    let rider = (membership != "day pass").then(|| random.skewed(RIDERS));
    let minutes = seconds / 60 + 1;
    let price_cents = match membership {
        "annual" => minutes.saturating_sub(30) * 8,
        "monthly" => 49 + minutes.saturating_sub(15) * 12,
        _ => 149 + minutes * 19,
    };
    Trip {
        id,
        started_ms,
        ended_ms: started_ms + seconds as i64 * 1_000,
        from,
        to,
        bike: random.below(BIKES),
        rider,
        electric,
        battery: electric.then(|| 100 - random.skewed(85) as u8),
        distance_m,
        price_cents,
        membership,
        latitude: one.latitude + random.below(12) as i64,
        longitude: one.longitude + random.below(12) as i64,
        referrer: referrer(random, from),
        note: random.one_in(30).then(|| note(random)),
        checkpoints: (0..distance_m / 1_800).map(|_| random.skewed(64) as i16).collect(),
    }
}

fn referrer(random: &mut Random, station: usize) -> String {
    let campaign = CAMPAIGNS[random.skewed(CAMPAIGNS.len() as u64) as usize];
    match random.below(5) {
        0 | 1 => format!("https://bikes.example.com/app/ios?campaign={campaign}"),
        2 | 3 => format!("https://bikes.example.com/app/android?campaign={campaign}"),
        _ => format!("https://bikes.example.com/stations/{station:03}?campaign={campaign}&via=qr"),
    }
}

fn note(random: &mut Random) -> String {
    let complaint = COMPLAINTS[random.below(COMPLAINTS.len() as u64) as usize];
    let praise = PRAISE[random.below(PRAISE.len() as u64) as usize];
    format!("{complaint}, {praise}")
}

fn email(rider: u64) -> String {
    let first = FIRST_NAMES[rider as usize % FIRST_NAMES.len()];
    let last = LAST_NAMES[rider as usize / FIRST_NAMES.len() % LAST_NAMES.len()];
    let host = MAIL_HOSTS[rider as usize % MAIL_HOSTS.len()];
    match rider / (FIRST_NAMES.len() * LAST_NAMES.len()) as u64 {
        0 => format!("{first}.{last}@{host}"),
        number => format!("{first}.{last}{}@{host}", number + 1),
    }
}

fn column(name: &str, nullable: bool, values: ArrayRef) -> (Field, ArrayRef) {
    (Field::new(name, values.data_type().clone(), nullable), values)
}

fn columns(trips: &[Trip], stations: &[Station], weather: &[Weather]) -> Vec<(Field, ArrayRef)> {
    let text = |value: fn(&Trip) -> &str| Arc::new(StringArray::from_iter_values(trips.iter().map(value))) as ArrayRef;
    let name = |station: fn(&Trip) -> usize| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(trips.iter().map(|trip| &stations[station(trip)].name)))
    };
    let number =
        |value: fn(&Trip) -> f64| Arc::new(Float64Array::from_iter_values(trips.iter().map(value))) as ArrayRef;
    let time = |value: fn(&Trip) -> i64| -> ArrayRef {
        Arc::new(TimestampMillisecondArray::from_iter_values(trips.iter().map(value)).with_timezone("UTC"))
    };
    debug_assert_eq!(time(|_| 0).data_type(), &DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())));
    vec![
        column("trip_id", false, Arc::new(Int64Array::from_iter_values(trips.iter().map(|trip| trip.id)))),
        column("started_at", false, time(|trip| trip.started_ms)),
        column("ended_at", false, time(|trip| trip.ended_ms)),
        column("start_station", false, name(|trip| trip.from)),
        column("end_station", false, name(|trip| trip.to)),
        column("start_latitude", false, number(|trip| trip.latitude as f64 / 1e5)),
        column("start_longitude", false, number(|trip| trip.longitude as f64 / 1e5)),
        column(
            "bike",
            false,
            Arc::new(StringArray::from_iter_values(trips.iter().map(|trip| format!("B-{:05}", trip.bike)))),
        ),
        column("electric", false, Arc::new(BooleanArray::from_iter(trips.iter().map(|trip| Some(trip.electric))))),
        column("battery_percent", true, Arc::new(UInt8Array::from_iter(trips.iter().map(|trip| trip.battery)))),
        column("membership", false, text(|trip| trip.membership)),
        column("rider_email", true, Arc::new(StringArray::from_iter(trips.iter().map(|trip| trip.rider.map(email))))),
        column("distance_km", false, number(|trip| trip.distance_m as f64 / 1e3)),
        column("price", false, number(|trip| trip.price_cents as f64 / 1e2)),
        column("referrer", false, text(|trip| &trip.referrer)),
        column("note", true, Arc::new(StringArray::from_iter(trips.iter().map(|trip| trip.note.as_deref())))),
        column("checkpoints", false, checkpoints(trips)),
        column("weather", false, weather_column(trips, weather)),
    ]
}

fn checkpoints(trips: &[Trip]) -> ArrayRef {
    let mut lists = ListBuilder::new(Int16Builder::new());
    for trip in trips {
        lists.append_value(trip.checkpoints.iter().copied().map(Some));
    }
    Arc::new(lists.finish())
}

fn weather_column(trips: &[Trip], weather: &[Weather]) -> ArrayRef {
    let of = |trip: &Trip| &weather[((trip.started_ms - FIRST_MS) / HOUR_MS) as usize % weather.len()];
    let celsius = Float32Array::from_iter_values(trips.iter().map(|trip| of(trip).tenths_celsius as f32 / 10.0));
    let wind = UInt8Array::from_iter_values(trips.iter().map(|trip| of(trip).wind_kmh));
    let rain = BooleanArray::from_iter(trips.iter().map(|trip| Some(of(trip).rain)));
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = [
        column("celsius", false, Arc::new(celsius)),
        column("wind_kmh", false, Arc::new(wind)),
        column("rain", false, Arc::new(rain)),
    ]
    .into_iter()
    .unzip();
    Arc::new(StructArray::new(Fields::from(fields), columns, None))
}
