//! kube-rs as a peer of larder.
//!
//!     kube-rs-peer sync --kubeconfig FILE [--list any|pages|stream] [--controller --objects N] [--strip]
//!                       [--hold SECONDS] [--until MARK] [--follow MARK]
//!
//! The reflector, or with --controller its Controller, which has synced when each of the N objects was reconciled once.
mod report;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{controller::Action, reflector, watcher, Controller, WatchStreamExt};
use kube::{Api, Client, Config, ResourceExt};
use report::Heard;
use std::sync::Arc;
use std::time::Duration;

#[derive(Default)]
struct Arguments {
    kubeconfig: String,
    list: String,
    controller: bool,
    strip: bool,
    objects: u64,
    hold: f64,
    until: String,
    follow: String,
}

fn arguments() -> anyhow::Result<Arguments> {
    let mut words = std::env::args().skip(1);
    anyhow::ensure!(words.next().as_deref() == Some("sync"), "usage: kube-rs-peer sync [options]");
    let mut arguments = Arguments { list: "any".into(), ..Default::default() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| anyhow::anyhow!("{word} needs a value"));
        match word.as_str() {
            "--kubeconfig" => arguments.kubeconfig = value()?,
            "--list" => arguments.list = value()?,
            "--controller" => arguments.controller = true,
            "--strip" => arguments.strip = true,
            "--objects" => arguments.objects = value()?.parse()?,
            "--hold" => arguments.hold = value()?.parse()?,
            "--until" => arguments.until = value()?,
            "--follow" => arguments.follow = value()?,
            _ => anyhow::bail!("there is no option {word}"),
        }
    }
    Ok(arguments)
}

// Ends the process on an error that kube-rs would retry: what is measured must not have gone wrong.
fn fail(error: impl std::fmt::Display) -> ! {
    eprintln!("kube-rs-peer: {error}");
    std::process::exit(1)
}

fn reflect(api: Api<Pod>, arguments: &Arguments, heard: Arc<Heard>) -> reflector::Store<Pod> {
    let config = match arguments.list.as_str() {
        "any" => watcher::Config::default().any_semantic(),
        "pages" => watcher::Config::default(),
        "stream" => watcher::Config::default().streaming_lists(),
        other => fail(format!("--list {other}: any, pages or stream")),
    };
    let strip = arguments.strip;
    let (store, writer) = reflector::store::<Pod>();
    let stream = watcher(api, config)
        .modify(move |pod| {
            if strip {
                pod.managed_fields_mut().clear();
            }
        })
        .default_backoff()
        .reflect(writer);
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(event) = stream.next().await {
            match event {
                Ok(watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) | watcher::Event::Delete(pod)) => {
                    heard.object(&pod)
                }
                Ok(_) => {}
                Err(error) => fail(error),
            }
        }
    });
    store
}

fn control(api: Api<Pod>, heard: Arc<Heard>) -> reflector::Store<Pod> {
    let controller = Controller::new(api, watcher::Config::default().any_semantic());
    let store = controller.store();
    let reconcile = |pod: Arc<Pod>, heard: Arc<Heard>| async move {
        heard.object(&pod);
        Ok::<Action, std::convert::Infallible>(Action::await_change())
    };
    let run = controller.run(reconcile, |_, _, _| Action::await_change(), heard);
    tokio::spawn(run.for_each(|outcome| async move {
        if let Err(error) = outcome {
            fail(error);
        }
    }));
    store
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = arguments()?;
    let file = Kubeconfig::read_from(&arguments.kubeconfig)?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    let api: Api<Pod> = Api::all(Client::try_from(config)?);
    let heard = Arc::new(Heard::new(&arguments.until, &arguments.follow));
    let store = if arguments.controller {
        control(api, heard.clone())
    } else {
        reflect(api, &arguments, heard.clone())
    };
    let wanted = if arguments.controller {
        arguments.objects // a second who waits for the store's readiness, beside the controller itself, may wait for ever
    } else {
        store.wait_until_ready().await?;
        0
    };
    while heard.handled() < wanted || !heard.saw_until() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    report::synced(store.len(), &heard, arguments.hold).await;
    if !arguments.follow.is_empty() {
        heard.follow_to_mark().await;
    }
    Ok(())
}
