/** The lots of this sale, as `POST /v1/default/units/lots` takes them. */

export interface Offer {
  readonly key: string;
  readonly title: string;
  readonly about: string;
  /** The least first bid. */
  readonly start: number;
  readonly minutes: number;
}

export const SALE: readonly Offer[] = [
  {
    key: "moon-globe",
    title: "Moon globe, 1961",
    about: "Lithographed tin. The far side is blank but for what Luna 3 had seen of it.",
    start: 40,
    minutes: 45,
  },
  {
    key: "sextant",
    title: "Brass sextant",
    about: "Made in Hamburg about 1890, in its mahogany box, with all four shades.",
    start: 120,
    minutes: 60,
  },
  {
    key: "star-atlas",
    title: "Star atlas, second edition",
    about: "Twenty-six plates, hand-coloured. Orion has a thumb print from a former owner.",
    start: 300,
    minutes: 75,
  },
  {
    key: "metronome",
    title: "Metronome",
    about: "Walnut. Keeps time, though not always the same.",
    start: 25,
    minutes: 20,
  },
  {
    key: "tide-table",
    title: "Tide table, Port of Liverpool",
    about: "For 1912, with pencil notes in the margins of April.",
    start: 60,
    minutes: 90,
  },
  {
    key: "telegraph-key",
    title: "Telegraph key",
    about: "Nickel-plated, on its slate base. It has a heavy touch.",
    start: 35,
    minutes: 120,
  },
];
