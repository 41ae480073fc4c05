//! What stands below the options.

const STORES: &str = "\
Stores:
  Without --store and LEASEHOLD_STORE the locks are kept in a SQLite file:
    root         /var/lib/leasehold/locks.db
    other users  $XDG_STATE_HOME/leasehold/locks.db,
                 else ~/.local/state/leasehold/locks.db
  That file is per user, so DIFFERENT USERS DO NOT EXCLUDE EACH OTHER on the
  default store, and different machines never do. Name a shared store for that.
";

const CODES: &str = "
Exit codes:
  64  bad usage: arguments, names, durations or URLs that can never work
  69  the store cannot be reached or opened
  75  the lock was not acquired in time, or the store is in quarantine and grants
      nothing yet (run --conflict-exit-code changes it); or a step of migrate has
      to wait
  79  the lock was lost, and COMMAND was ended for it
  else COMMAND's own: its code, 128+n if signal n ended it, 126 if it cannot be
  executed, 127 if it is not found
  Each failure of leasehold's own is one line on stderr that starts 'leasehold:', as is the
  note of 'run' that it waits for the end of a quarantine.

Examples:
  leasehold run backup -- rsync -a /data host:/backup
  leasehold inspect backup
  leasehold --store sqlite:/srv/shared/locks.db list --json";

/// What stands below the options: which stores there are, and what the exit codes mean.
pub(super) fn epilogue() -> String {
    let urls: String = leasehold::store_urls().map(|url| format!("    {url}\n")).collect();
    format!("{STORES}  URLs that this build understands:\n{urls}{CODES}")
}

pub(super) const RUN: &str = "\
COMMAND has stdin, stdout and stderr untouched, and in its environment
  LEASEHOLD_NAME    the name that is locked
  LEASEHOLD_TOKEN   the fencing token, higher with every grant of this name: give it
                    to what you write to, and have it refuse a lower one
  LEASEHOLD_OWNER   who holds the lock, as 'leasehold inspect' shows it

Signals sent to leasehold are passed on to COMMAND. When the lock is lost (the
store did not answer for a whole lease, leasehold was paused for longer than that, or
'leasehold release --force' took it away), all processes that COMMAND started get
SIGTERM, then SIGKILL after the grace time, and the exit code is 79. They are killed
too if leasehold itself is killed; the lock is then free within one lease. What COMMAND
leaves running in the background when it ends is not covered by the lock.

leasehold cannot end a process of another user. A COMMAND that becomes one, as through
sudo or another set-user-ID program, goes on when the lock is lost, and when leasehold is
killed. Start leasehold as that user: 'sudo leasehold run backup -- COMMAND', and not
'leasehold run backup -- sudo COMMAND'.

COMMAND does not have LEASEHOLD_STORE in its environment, since that may hold a password;
--pass-store gives it the store's URL there. Others on this machine can read a command
line: a URL with a password belongs in LEASEHOLD_STORE and not behind --store.

A store that has lost its data grants nothing until all leases that it may have given
are over: the quarantine, which begins with the first request after the loss. leasehold
says so and waits for its end, --quarantine-wait at most; only then it tries, and --wait
and --at-least begin to count. All machines that start the job meanwhile try at the
same moment. One of them gets the lock; a job that is over before the others have tried
needs --at-least, as it does for machines whose clocks differ.

Examples:
  leasehold run backup -- rsync -a /data host:/backup
  leasehold run --wait 30s --lease 20s deploy -- ./deploy.sh production
  leasehold run --conflict-exit-code 0 nightly -- ./nightly  # fine if it runs already
  leasehold run report -- sh -c 'echo my token is $LEASEHOLD_TOKEN'

Exit codes: see 'leasehold --help'.";

pub(super) const MIGRATE: &str = "\
Processes are restarted one by one, at any pace, through these store URLs:
  FROM                            as before
  migrate:old?from=FROM&to=TO     uses FROM, and is seen
  migrate:both?from=FROM&to=TO    holds each lock in both stores
  migrate:new?from=FROM&to=TO     uses TO, and is seen
  TO                              done
where FROM and TO have %25 for % and %26 for &. Each step begins when all processes have
made the one before; to go back, take the same steps the other way.

  status  shows who is in which phase, and what may come next
  next    tells the next step towards TO, or exits with 75 while it has to wait
  back    the same towards FROM

A process that uses FROM or TO itself is not seen. docs/migration.md tells more.";
