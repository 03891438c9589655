/**
 * The configuration of a one-machine Ceph for tests: one monitor, one store, no replicas, no authentication between the
 * daemons, everything on 127.0.0.1 and in one folder, and no waits that make sense only in a data centre.
 */
export interface RadosgwPlan {
  readonly folder: string;
  readonly fsid: string;
  readonly store: "memstore" | "bluestore";
  /** The monitor's; the store takes the {@link STORE_PORTS} after it. */
  readonly monitorPort: number;
}

/** The store listens four times: for clients, for its kind, and twice for heartbeats. One to spare for each. */
export const STORE_PORTS = 8;

/** Logs cost a fifth of a small request; what went wrong is written at any level. */
const QUIET = ["ms", "mon", "monc", "paxos", "auth", "osd", "bluestore", "bdev", "bluefs", "rocksdb", "rgw"];

export function radosgwConfig({ folder, fsid, store, monitorPort }: RadosgwPlan): string {
  return section("global", {
    fsid,
    "mon host": `v2:127.0.0.1:${monitorPort}`,
    "public addr": "127.0.0.1",
    "cluster addr": "127.0.0.1",
    "ms bind ipv6": false,
    "ms bind msgr1": false,
    // A port that is taken is told at once: the next try takes others.
    "ms bind retry count": 1,
    "ms bind port min": monitorPort + 1,
    "ms bind port max": monitorPort + STORE_PORTS,
    "auth cluster required": "none",
    "auth service required": "none",
    "auth client required": "none",
    keyring: "/dev/null",
    "run dir": `${folder}/run`,
    "crash dir": `${folder}/log`,
    "log file": `${folder}/log/$name.log`,
    "admin socket": "",
    "pid file": "",
    "log max recent": 1,
    ...Object.fromEntries(QUIET.map((name) => [`debug ${name}`, "0/0"])),
    "osd crush chooseleaf type": 0,
    "osd pool default size": 1,
    "osd pool default min size": 1,
    "osd pool default pg num": 4,
    "osd pool default pgp num": 4,
    "osd pool default pg autoscale mode": "off",
    "mon allow pool size one": true,
    "mon max pg per osd": 1000,
  })
    .concat(
      section("mon", {
        "mon data": `${folder}/mon`,
        "mon cluster log file": `${folder}/log/cluster.log`,
        "mon cluster log to syslog": false,
        // A machine whose disk is nearly full may still run tests.
        "mon data avail warn": 1,
        "mon data avail crit": 1,
        // Each of the gateway's pools is a round of agreement with nobody: it need not gather others for a second.
        "paxos propose interval": 0.05,
      }),
      section("osd", {
        "osd data": `${folder}/osd`,
        "osd objectstore": store,
        "memstore device bytes": 4 * 1024 ** 3,
        "bluestore block size": 10 * 1024 ** 3,
        "osd memory target": 896 * 1024 ** 2,
        "osd op num shards": 2,
        // Gateways tell each other what to forget, and wait so long for one that was killed. The usual 30 seconds are long.
        "osd client watch timeout": 3,
        "osd class load list": "*",
        "osd class default list": "*",
      }),
      section("client", {
        "ms mon client mode": "crc",
        // Pacific asks again for what came before the store was up only every five seconds.
        "objecter tick interval": 0.2,
        "mon client hunt interval": 0.3,
        "rgw thread pool size": 32,
        "rgw rados pool pg num min": 4,
        "rgw dns name": "localhost",
        "rgw enable usage log": false,
        "rgw enable ops log": false,
        "rgw lifecycle work time": "00:00-00:00",
        // The bytes of deleted objects go soon, so that a long run does not fill the memory.
        "rgw gc obj min wait": 300,
        "rgw gc processor period": 60,
      }),
    )
    .join("\n");
}

function section(name: string, options: Readonly<Record<string, string | number | boolean>>): string[] {
  return [`[${name}]`, ...Object.entries(options).map(([option, value]) => `${option} = ${value}`), ""];
}
