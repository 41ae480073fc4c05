//! The faults of whole processes and of the store: pauses, kills, clock steps, quarantines, forced
//! releases.

use std::{sync::Arc, time::Duration};

use lock_core::{Backend as _, LockClient, LockName};

use super::{
    net::{Net, at_once},
    world::World,
};
use conformance_tests::history::Recorder;

/// Makes the disasters of the plan happen, spread over the time of its faults.
pub(super) async fn run(
    world: World,
    net: Arc<Net>,
    recorder: Recorder,
    names: Vec<LockName>,
    clients: Vec<LockClient>,
) {
    let (plan, ms) = (&net.plan, Duration::from_millis);
    let mut kills = plan.kills;
    let mut closes = plan.closes;
    for _ in 0..plan.disasters {
        world.sleep(world.span(ms(10), plan.faults_for / (plan.disasters as u32 + 1))).await;
        let at = world.roll(u64::from(plan.processes)) as usize;
        let process = at as u32 + 1;
        match world.roll(7) {
            0 | 1 => {
                let span = world.span(ms(50), ms(3_000));
                world.log(format_args!("process {process} stops for {span:?}"));
                world.pause(process, span);
            }
            2 => {
                let until = world.now() + world.span(ms(50), ms(2_500)).as_nanos() as u64;
                world.log(format_args!("the store stops"));
                net.state().store_stopped_until = until;
            }
            3 => {
                let step = world.roll(20_000_000) as i64 - 10_000_000;
                world.log(format_args!("the wall clock steps by {step}us"));
                net.clock.step_wall(step);
            }
            4 => {
                let until = world.now() + world.span(ms(50), ms(1_500)).as_nanos() as u64;
                world.log(format_args!("quarantine"));
                net.state().quarantined_until = until;
            }
            5 if std::mem::take(&mut closes) => {
                world.log(format_args!("process {process} closes its client"));
                let client = clients[at].clone();
                let (done, net) = (world.clone(), Arc::clone(&net));
                world.spawn(
                    process,
                    Box::pin(async move {
                        let began = done.now();
                        client.close().await;
                        // The call timeout, once for calls in flight and once for the releases.
                        if done.now() - began > ms(6_000).as_nanos() as u64 {
                            net.find("close took longer than its limit".into());
                        }
                        net.state().closed.insert(process);
                    }),
                );
            }
            5 if std::mem::take(&mut kills) => {
                world.log(format_args!("process {process} is killed"));
                world.kill(process);
            }
            _ => {
                let name = &names[world.roll(names.len() as u64) as usize];
                world.log(format_args!("{name} is freed by force"));
                let began = recorder.now();
                let freed = at_once(net.memory.force_release(name));
                debug_assert!(freed.is_ok(), "memory frees");
                recorder.forced(name, began);
            }
        }
    }
    drop(clients);
    world.sleep(plan.faults_for).await;
    world.log(format_args!("no faults from here on"));
    net.state().calm = true;
}
