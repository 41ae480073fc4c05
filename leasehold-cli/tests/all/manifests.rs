//! The systemd units and the Kubernetes manifests of the docs. A test does what systemd or
//! Kubernetes does with them, with only the paths and the store replaced.

use std::fs;
use std::process::Command;

use rustix::process::Signal;
use yaml_rust2::{Yaml, YamlLoader};

use crate::support::docs::{self, Shell};
use crate::support::{Running, new_session, until};

/// The units of docs/cli.md, by their names. A comment with its path precedes each.
fn units() -> Vec<(String, String)> {
    let block = docs::block("docs/cli.md", "# /etc/systemd/system/nightly.service");
    let files = block.split("# /etc/systemd/system/").skip(1);
    let named = files.map(|file| file.split_once('\n').unwrap());
    named.map(|(name, text)| (name.to_owned(), text.to_owned())).collect()
}

/// The value of a setting that a unit has once.
fn setting<'a>(unit: &'a str, name: &str) -> &'a str {
    let mut values = unit.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    let value = values.next().unwrap_or_else(|| panic!("no {name} in {unit}"));
    assert_eq!(values.next(), None, "{name}");
    value
}

#[test]
fn systemd_accepts_the_units_and_runs_the_job() {
    let shell = Shell::new();
    let job = shell.program("nightly", "echo \"attempt $LEASEHOLD_ATTEMPT\"");
    let installed = shell.store.beside(".cargo/bin/leasehold");
    let shell = shell
        .with("/usr/local/bin/nightly", job.to_str().unwrap())
        .with("/usr/local/bin/leasehold", installed.to_str().unwrap());
    let units = units();
    let names: Vec<_> = units.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["nightly.service", "nightly.timer"]);
    let paths = names.iter().map(|name| shell.store.beside(name)).collect::<Vec<_>>();
    for (path, (_, text)) in paths.iter().zip(&units) {
        fs::write(path, shell.here(text)).unwrap();
    }
    // It also tells of other units of the machine.
    if let Ok(output) = Command::new("systemd-analyze").arg("verify").args(&paths).output() {
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!told.contains("nightly"), "{told}");
    } else {
        println!("SKIPPED: systemd-analyze is not installed");
    }

    let service = shell.here(&units[0].1);
    // systemd copies the file to the folder that %d stands for.
    let (credential, file) = setting(&service, "LoadCredential").split_once(':').unwrap();
    assert_eq!(file, "/etc/leasehold/store");
    let folder = shell.store.beside("credentials");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join(credential), format!("{}\n", shell.store.url())).unwrap();
    let line = setting(&service, "ExecStart").replace("%d", folder.to_str().unwrap());
    let mut words = line.split(' ');
    let mut start = new_session();
    start.arg(words.next().unwrap()).args(words).env_remove("LEASEHOLD_STORE");
    let run = |start: &mut Command| {
        let output = start.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let text = [output.stdout, output.stderr].concat();
        String::from_utf8(text).unwrap()
    };
    assert_eq!(run(&mut start), "attempt 1\n");
    // The next machine.
    let told = run(&mut start);
    assert!(told.contains("\"nightly\" is not due: "), "{told}");
    assert_eq!(setting(&service, "SuccessExitStatus"), "75");
}

/// Those of Kubernetes, and the alerts for Prometheus.
#[test]
fn what_the_pages_show_as_yaml_is_yaml() {
    let blocks = docs::pages().into_values().flat_map(|text| docs::blocks(&text));
    let parsed = blocks.filter(|block| block.language == "yaml").map(|block| {
        let documents = YamlLoader::load_from_str(&block.text).unwrap();
        assert!(documents[0].as_hash().is_some(), "{}", block.text);
    });
    assert!(parsed.count() >= 3);
}

/// The only container of a manifest.
fn container(manifest: &Yaml) -> &Yaml {
    let template = match manifest["kind"].as_str().unwrap() {
        "CronJob" => &manifest["spec"]["jobTemplate"]["spec"]["template"],
        "Deployment" => &manifest["spec"]["template"],
        kind => panic!("a manifest of the kind {kind}"),
    };
    let containers = template["spec"]["containers"].as_vec().unwrap();
    assert_eq!(containers.len(), 1);
    &containers[0]
}

/// Starts the command of a manifest as Kubernetes does in a pod, with the store in the variables
/// of the container.
fn pod(shell: &Shell, text: &str) -> Running {
    let manifest = YamlLoader::load_from_str(&shell.here(text)).unwrap().remove(0);
    let container = container(&manifest);
    let words = container["command"].as_vec().unwrap().iter().map(|word| word.as_str().unwrap());
    let words: Vec<_> = words.collect();
    let mut command = shell.command(words[0]);
    command.args(&words[1..]).env_remove("LEASEHOLD_STORE");
    for variable in container["env"].as_vec().unwrap() {
        assert_eq!(variable["valueFrom"]["secretKeyRef"]["key"].as_str(), Some("store"));
        command.env(variable["name"].as_str().unwrap(), shell.store.url());
    }
    Running::start(&mut command)
}

#[test]
fn of_two_jobs_that_kubernetes_starts_one_runs() {
    let manifest = docs::block("docs/cli.md", "apiVersion: batch/v1");
    let shell = Shell::new();
    let job = shell.program("nightly", "echo \"attempt $LEASEHOLD_ATTEMPT\"");
    let shell = shell.with("/usr/local/bin/nightly", job.to_str().unwrap());
    let mut jobs = [pod(&shell, &manifest), pod(&shell, &manifest)];
    assert_eq!(jobs.each_mut().map(Running::code), [0, 0]);
    let mut lines: Vec<_> = jobs.iter().flat_map(Running::until_all_gone).collect();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!(lines.remove(0), "attempt 1");
}

#[test]
fn of_the_pods_of_a_deployment_one_leads_and_another_takes_over() {
    let manifest = docs::block("docs/several-locks.md", "apiVersion: apps/v1");
    let shell = Shell::new();
    let program = shell.program("scheduler", "echo $LEASEHOLD_TOKEN; exec sleep 1000");
    let shell = shell.with("/usr/local/bin/scheduler", program.to_str().unwrap());
    let mut leader = pod(&shell, &manifest);
    let term: u64 = leader.line().parse().unwrap();
    let mut other = pod(&shell, &manifest);
    let waiting = || shell.store.json(&["inspect", "scheduler"])["waiting"].as_u64();
    until("the other pod to wait", || waiting().filter(|count| *count == 1));
    // As Kubernetes ends a pod.
    leader.signal(Signal::TERM);
    leader.ended();
    let next: u64 = other.line().parse().unwrap();
    assert!(next > term, "{next} after {term}");
    // As an operator would: the leader learns of it, and its pod is started again.
    shell.store.ok(&["release", "--force", "scheduler"]);
    assert_eq!(other.code(), 79);
}
