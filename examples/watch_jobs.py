#!/usr/bin/env python3
"""watch_jobs.py [COUNT] - a line for each job that begins, and for each that ends what it used.

Needs the daemon ("proctor start") and the module: PYTHONPATH=$(pkg-config --variable=pythondir
libproctor), unless Python finds it by itself. Ends after COUNT jobs.
"""

import sys

import proctor


def describe(report):
    peak, cpu = report["peak_rss_mb"], report["total_cpu_seconds"]
    return "{}: {}, {} CPU, {} at most".format(
        report["job_id"],
        report["outcome"],
        "unknown" if cpu is None else f"{cpu:.2f} s",
        "unknown" if peak is None else f"{peak:.1f} MB",
    )


def watch(client, count):
    for event in client.subscribe("job.*"):
        if event.topic == "lost":
            print(f"{event.lost} events were lost", flush=True)
        elif event.topic in ("job.completed", "job.failed", "job.cancelled"):
            print(describe(client.report(event.data["job_id"], event.data["attempt"])), flush=True)
            count -= 1
            if count == 0:
                return
        else:
            print(f"{event.data['job_id']}: {event.topic[4:]}", flush=True)


def main(arguments):
    try:
        with proctor.Client() as client:
            watch(client, int(arguments[0]) if arguments else 0)
    except proctor.Error as error:
        return f"watch_jobs.py: {error}"
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
