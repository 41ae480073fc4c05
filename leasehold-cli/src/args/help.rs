//! The help texts below the options.

use crate::sys::{DEFAULT_STORES, WEAKER};

const EACH_USER: &str =
    "  Each user has a file of their own, so DIFFERENT USERS DO NOT EXCLUDE EACH OTHER
  on the default store, and neither do different machines. Name a shared store for
  that.
";

const CODES: &str = "
Exit codes:
  64  bad usage: an argument, name, duration or URL that can never work
  69  the store cannot be reached or opened; or, with --once-per, it is unknown whether
      COMMAND has run
  75  the lock was not acquired in time, or the store is in quarantine and grants
      nothing yet (run --conflict-exit-code changes this code); or a step of
      migrate must wait
  78  check: the store does not promise exclusion
  79  the lock was lost, and COMMAND was ended; or renew and release --handle-file find
      that it was lost
  Otherwise that of COMMAND: its exit code, 128+n if signal n ended it, 126 if it
  cannot be executed, 127 if it is not found.
  For each failure of its own, leasehold writes one line to stderr that starts with
  'leasehold:'. It also writes such a line if it waits for the end of a quarantine.
  Warnings, such as a failed renewal that leasehold repeats, are lines that start with a
  time. With --log-format json each of these lines is a JSON object, and there is one more
  for each lock that is requested, acquired, not acquired or released.

Examples:
  leasehold run backup -- rsync -a /data host:/backup
  leasehold inspect backup
  leasehold --store sqlite:/srv/shared/locks.db list --json";

/// The text below the options of `leasehold --help`: the stores and the exit codes.
pub(super) fn epilogue() -> String {
    let urls: String = leasehold::store_urls().map(|url| format!("    {url}\n")).collect();
    let stores =
        "Stores:\n  Without --store and LEASEHOLD_STORE the locks are kept in a SQLite file:\n";
    format!("{stores}{DEFAULT_STORES}{EACH_USER}  URLs that this build understands:\n{urls}{CODES}")
}

/// The text below the options of `leasehold run --help`, with what this system does less well.
pub(super) fn run() -> String {
    format!("{RUN}{WEAKER}")
}

const RUN: &str = "\
COMMAND has the stdin, stdout and stderr of leasehold, and in its environment
  LEASEHOLD_NAME    the name that is locked
  LEASEHOLD_TOKEN   the fencing token, higher with every grant of this name. Give it
                    to the resource that COMMAND writes to, which should refuse a
                    lower one
  LEASEHOLD_OWNER   the holder's id, as 'leasehold inspect' shows it
  LEASEHOLD_TOKENS  with --also: the tokens of NAME and of each --also, in the order
                    given, with a space between; the variables above are of NAME
  LEASEHOLD_PERMIT  with --permits: the permit, NAME/0 to NAME/N-1. Its token and its
                    holder are above; the token says nothing of other permits
  LEASEHOLD_ATTEMPT with --once-per: 1, or more if the last attempt failed or did not end

With --once-per PERIOD, leasehold runs COMMAND only if no run of NAME has succeeded in
that time, on whichever machine. Otherwise it says when and where it ran, and exits with 0
(--done-exit-code). If COMMAND fails, or its machine dies, the next leasehold that asks
runs it again; with --at-most-once it does not. A leasehold that waits (--wait) is a
standby for that. PERIOD counts from the begin of the first attempt, on the store's clock,
less a tenth, at most an hour: a cron job that begins a little early skips no day. It is
the shortest time between two runs, not a schedule: for a daily job that may catch up
late, use --once-per 12h. A store that has lost data may not know whether COMMAND has run:
leasehold then exits with 69, or runs it with --if-unknown run. 'leasehold record NAME'
shows the last run.

With --also, leasehold takes all of the locks or none, and in the order of their names:
two jobs that name the same locks in opposite orders do not wait for each other. --wait
is for all of them together. If one is lost, COMMAND is ended.

With --permits N, N jobs run at a time. All jobs of NAME must have the same N: otherwise
the largest counts. Do not use NAME, or NAME/0 to NAME/N-1, as other locks.

With --shared, several readers run at the same time. A writer, a job that locks NAME
without --shared, runs alone. A later reader does not pass a waiting writer. A crashed
reader delays writers by at most its lease. With --also, all of the locks are shared.

leasehold passes signals on to COMMAND. After SIGTERM, COMMAND may wind down as long as
--grace says, and leasehold holds the lock until it has ended.

COMMAND ends before its lock does. If the store confirms no renewal, all processes that
COMMAND started get SIGTERM when --loss-grace is left of the time for which the lock is
valid, and SIGKILL a twentieth of the lease before its end (at most 1s before it). The
exit code is 79, also if a renewal is confirmed after SIGTERM. This holds if leasehold is
killed, stopped (SIGSTOP, Ctrl-Z) or blocked: a process of its own, the job reaper, ends
COMMAND. If the job reaper is killed or stopped, leasehold ends COMMAND.

Without notice the lock is lost if 'leasehold release --force' takes it away, or if the
store loses its data. leasehold learns of it at the next renewal, after a third of the
lease at most. Then COMMAND gets SIGTERM, and SIGKILL after 1s (or after --loss-grace, if
that is shorter). So it may run beside the next holder for that long. Nothing ends COMMAND
if leasehold and the job reaper are stopped together, or the whole machine or container
is. Only a resource that checks fencing tokens refuses its writes then.

If COMMAND leaves processes in the background when it ends, the lock does not cover them.

leasehold cannot end a process of another user. If COMMAND becomes one, for example by
sudo or another set-user-ID program, it continues after the lock is lost and after
leasehold is killed. So start leasehold as that user:
'sudo leasehold run backup -- COMMAND', not 'leasehold run backup -- sudo COMMAND'.

COMMAND does not have LEASEHOLD_STORE in its environment, because it may hold a
password. --pass-store gives COMMAND the store's URL there. Other users of this machine
can read a command line, so put a URL with a password into LEASEHOLD_STORE or into a
file for --store-file, not after --store.

A store that has lost its data grants nothing until all leases that it may have given
are over. This quarantine begins with the first request after the loss. leasehold says
so and waits for its end, at most for --quarantine-wait. Then it asks for the lock, and
--wait and --at-least begin. All machines that start the job during a quarantine ask at
the same moment, and one gets the lock. If the job may end before the others have
asked, use --at-least, as for machines whose clocks differ.

Examples:
  leasehold run backup -- rsync -a /data host:/backup
  leasehold run --once-per 24h nightly -- ./nightly          # in the crontab of each machine
  leasehold run --wait 30s --lease 20s deploy -- ./deploy.sh production
  leasehold run --conflict-exit-code 0 nightly -- ./nightly  # fine if it runs already
  leasehold run --permits 3 exports -- ./export              # at most three at a time
  leasehold run --shared data -- ./report   # beside others, not beside a writer
  leasehold run account/17 --also account/4 -- ./transfer
  leasehold run report -- sh -c 'echo my token is $LEASEHOLD_TOKEN'

Exit codes: see 'leasehold --help'.";

pub(super) const HOLD: &str = "\
For a script that cannot start its work as one COMMAND. leasehold acquires the lock,
prints the fencing token on stdout, and holds the lock until its stdin ends. Then it
releases the lock and exits with 0. If the script ends in any way, its end of the pipe
is closed, so the lock is released then, too.

A signal that asks leasehold to end (HUP, INT, QUIT, TERM) also releases the lock; the
exit code is 128+n. If stdin ends before the lock is acquired, leasehold stops waiting
and exits with 75. If the lock is lost, leasehold writes why and exits with 79: its
stdout ends, a twentieth of the lease (at most 1s) before the lock does. If leasehold is
stopped or blocked then, a process that watches it kills it. NOTHING ENDS THE SCRIPT'S
WORK THEN. 'leasehold run' does that.

With --also it prints the tokens of NAME and of each --also on one line, in the order
given. With --permits it prints the token and the permit, such as '7 exports/0'.

stdin must be a pipe, a socket or a terminal. A process that a script starts with '&'
has /dev/null there, which has ended already, so it is refused: use a coprocess.

Example, in bash:
  coproc LOCK { leasehold hold nightly; }
  read -r token <&\"${LOCK[0]}\" || exit 1    # not acquired
  ./work --fencing-token \"$token\"
  exec {LOCK[1]}>&-                          # releases

Exit codes: see 'leasehold --help'.";

pub(super) const ACQUIRE: &str = "\
For a script whose steps are calls of their own, perhaps on several machines. NOBODY
RENEWS THE LOCK BETWEEN THE CALLS: it ends --lease after acquire, and --lease after each
renew, by the clock of the store. NOTHING ENDS THE SCRIPT'S WORK THEN. Use 'leasehold run'
or 'leasehold hold' where you can.

So --lease must be longer than the longest step, or call renew more often than that. It
can be 30s at most, until an operator raises the longest lease of the store for all its
clients, for example with 'leasehold init --longest-lease 10m'. What that costs: after a
loss of data the store grants nothing for one longest lease (a quarantine), so 10m without
any lock instead of 30s. And the lock of a script that has died is held for its --lease.

acquire prints the fencing token, and writes the lock to --handle-file, which nobody else
may read. Whoever has this file and may use the store can take the lock over. renew writes
the file anew, and only the newest one is good: a copy of an older one is refused.

If acquire is killed before it has ended, its lock ends with its lease. With 79 from renew
or release the lock was lost before: another job may have run.

Example, after 'leasehold init --longest-lease 5m':
  leasehold acquire deploy --lease 5m --handle-file deploy.lock || exit
  ./build
  leasehold renew --handle-file deploy.lock || exit    # 79: the lock was lost
  ./publish
  leasehold release --handle-file deploy.lock

Exit codes: see 'leasehold --help'.";

pub(super) const RENEW: &str = "\
The lock then lasts for its lease from now on. Nobody renews it until the next renew: see
'leasehold acquire --help'. It prints the fencing token, which stays the same. The exit
code is 79 if the lock was lost, also if another call has renewed or released it since
FILE was copied. With 69 it is not known whether the lock is still held: it may be renewed
again, or its lease ends.

Exit codes: see 'leasehold --help'.";

pub(super) const RELEASE: &str = "\
With --handle-file the exit code is 0 if the lock was released, and 79 if it had been lost
before: see 'leasehold acquire --help'. Both remove FILE.

Exit codes: see 'leasehold --help'.";

pub(super) const MIGRATE: &str = "\
Restart the processes one by one, at any pace, with these store URLs in turn:
  FROM                            as before
  migrate:old?from=FROM&to=TO     uses FROM, and is seen here
  migrate:both?from=FROM&to=TO    holds each lock in both stores
  migrate:new?from=FROM&to=TO     uses TO, and is seen here
  TO                              done
In FROM and TO write %25 for % and %26 for &. Begin a step when all processes have made
the step before. To go back, take the same steps in the other order.

  status  shows the phase of each process, and the next steps
  next    shows the next step towards TO, or exits with 75 while it must wait
  back    the same towards FROM

A process with the URL FROM or TO is not seen here. See docs/migration.md.";
