//! The profiles of Amazon's own tools: the files `~/.aws/credentials` and `~/.aws/config`.

use std::{fs, io, path::PathBuf};

use lock_core::{Error, ErrorKind};

use super::Variables;

/// What a profile may have, and the variable that says the same.
const KNOWN: [(&str, &str); 6] = [
    ("aws_access_key_id", "AWS_ACCESS_KEY_ID"),
    ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY"),
    ("aws_session_token", "AWS_SESSION_TOKEN"),
    ("region", "AWS_DEFAULT_REGION"),
    ("role_arn", "AWS_ROLE_ARN"),
    ("web_identity_token_file", "AWS_WEB_IDENTITY_TOKEN_FILE"),
];
/// What a profile may have in place of keys, and only Amazon's own tools can use.
const UNKNOWN: [&str; 5] =
    ["credential_process", "credential_source", "login_session", "source_profile", "sso_"];
/// The variables that come before a profile, as in the command `aws`, also if `AWS_PROFILE` names
/// one. The credentials of a container or an instance come after it.
const CREDENTIALS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE"];

/// Adds to the variables what the chosen profile says, unless a variable says it already.
///
/// # Errors
/// `Config` if `AWS_PROFILE` names a profile that no file has, if a file cannot be read, or if the
/// profile has no keys and names a source of keys that only Amazon's own tools know.
pub(super) fn add(variables: &mut Variables) -> Result<(), Error> {
    let names_keys =
        |variables: &Variables| CREDENTIALS.iter().any(|it| variables.get(it).is_some());
    let has_keys = names_keys(variables);
    let chosen = variables.get("AWS_PROFILE").map(str::to_owned);
    let profile = chosen.as_deref().unwrap_or("default");
    // In the second file the section has another name, except for the default profile.
    let in_config = format!("profile {profile}");
    let mut found = None;
    for (named_by, file, section) in [
        ("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile),
        ("AWS_CONFIG_FILE", "config", &in_config),
        ("AWS_CONFIG_FILE", "config", profile),
    ] {
        if let Some(settings) = read(variables, named_by, file, section)? {
            found.get_or_insert_with(Vec::new).extend(settings);
        }
    }
    let refuse = |message: String| Err(Error::new(ErrorKind::Config, message));
    if found.is_none() && chosen.is_some() && !has_keys {
        return refuse(format!(
            "AWS_PROFILE names the profile {profile:?}, which is in neither of the files \
             credentials and config"
        ));
    }
    let found = found.unwrap_or_default();
    for (key, variable) in KNOWN.iter().filter(|(key, _)| !has_keys || *key == "region") {
        if let Some((_, value)) = found.iter().find(|(name, _)| name == key) {
            variables.add(variable, value.clone());
        }
    }
    let is_source = |key: &str| UNKNOWN.iter().any(|unknown| key.starts_with(unknown));
    match found.iter().find(|(key, _)| is_source(key)) {
        Some((source, _)) if !names_keys(variables) => refuse(format!(
            "the profile {profile:?} has its keys by {source}, which only Amazon's own tools \
             know; 'aws configure export-credentials --format env' prints them as variables"
        )),
        _ => Ok(()),
    }
}

/// The settings of one section of a file, if it is there.
fn read(
    variables: &Variables,
    named_by: &str,
    name: &str,
    section: &str,
) -> Result<Option<Vec<(String, String)>>, Error> {
    let path = match (variables.get(named_by), variables.get("HOME")) {
        (Some(path), _) => PathBuf::from(path),
        (None, Some(home)) => PathBuf::from(home).join(".aws").join(name),
        (None, None) => return Ok(None),
    };
    match fs::read_to_string(&path) {
        Ok(text) => Ok(settings(&text, section)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let message = format!("{} cannot be read", path.display());
            Err(Error::new(ErrorKind::Config, message).with_source(error))
        }
    }
}

/// The lines `key = value` below `[section]`. Indented lines belong to a setting that has no use
/// here.
fn settings(text: &str, section: &str) -> Option<Vec<(String, String)>> {
    let (mut found, mut is_here) = (None, false);
    for line in text.lines() {
        let is_indented = line.starts_with([' ', '\t']);
        let line = line.trim();
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split(']').next().unwrap_or_default();
            let words = |name: &str| name.split_whitespace().collect::<Vec<_>>().join(" ");
            is_here = words(name) == words(section);
            if is_here {
                found.get_or_insert_with(Vec::new);
            }
        } else if let (true, false, Some((key, value))) =
            (is_here, is_indented, line.split_once('='))
            && !line.starts_with(['#', ';'])
        {
            let setting = (key.trim().to_ascii_lowercase(), value.trim().to_owned());
            found.get_or_insert_with(Vec::new).push(setting);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "\
        # of the machine\n\
        [default]\naws_access_key_id = AKDEFAULT\naws_secret_access_key=hunter2\n\
        [ jobs ]\nAWS_ACCESS_KEY_ID=AKJOBS\naws_secret_access_key = a=b/c+d\n\
        ; aws_session_token = old\n aws_session_token = nested\n\
        [half]\n";
    const CONFIG: &str = "\
        [default]\nregion = eu-north-1\n\
        [profile jobs]\nregion = eu-west-1\ns3 =\n  max_queue_size = 7\n\
        [profile sso]\nsso_session = corp\nregion = us-west-2\n\
        [profile role]\nrole_arn = arn:aws:iam::1:role/x\nsource_profile = default\n\
        [profile web]\nrole_arn = arn:aws:iam::1:role/x\nweb_identity_token_file = /token\n";

    /// The variables after the profile was added.
    fn added(given: &[(&str, &str)]) -> Result<Variables, Error> {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap().to_owned();
        fs::create_dir(folder.path().join(".aws")).unwrap();
        fs::write(folder.path().join(".aws/credentials"), CREDENTIALS).unwrap();
        fs::write(folder.path().join(".aws/config"), CONFIG).unwrap();
        let given = given.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let mut variables = Variables::new(given.chain([("HOME".to_owned(), home)]));
        add(&mut variables)?;
        Ok(variables)
    }

    fn of(variables: &Variables) -> [Option<&str>; 4] {
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"]
            .map(|name| variables.get(name))
    }

    #[test]
    fn a_profile_has_keys_and_a_region() {
        let of_default = added(&[]).unwrap();
        let expected = [Some("AKDEFAULT"), Some("hunter2"), None, Some("eu-north-1")];
        assert_eq!(of(&of_default), expected);
        let jobs = added(&[("AWS_PROFILE", "jobs")]).unwrap();
        assert_eq!(of(&jobs), [Some("AKJOBS"), Some("a=b/c+d"), None, Some("eu-west-1")]);
        let web = added(&[("AWS_PROFILE", "web")]).unwrap();
        assert_eq!(web.get("AWS_WEB_IDENTITY_TOKEN_FILE"), Some("/token"));
        assert_eq!(web.get("AWS_ROLE_ARN"), Some("arn:aws:iam::1:role/x"));
    }

    #[test]
    fn variables_come_first_and_keys_are_not_mixed() {
        let keys = [("AWS_ACCESS_KEY_ID", "AKOWN"), ("AWS_PROFILE", "jobs")];
        assert_eq!(of(&added(&keys).unwrap()), [Some("AKOWN"), None, None, Some("eu-west-1")]);
        let region = added(&[("AWS_DEFAULT_REGION", "eu-1"), ("AWS_ACCESS_KEY_ID", "")]).unwrap();
        assert_eq!(of(&region), [Some("AKDEFAULT"), Some("hunter2"), None, Some("eu-1")]);
    }

    /// The order of the command `aws`.
    #[test]
    fn a_profile_comes_before_a_container_and_after_a_web_identity() {
        let container = ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1:1/");
        for chosen in [&[][..], &[("AWS_PROFILE", "jobs")]] {
            let both = added(&[chosen, &[container]].concat()).unwrap();
            assert!(both.get("AWS_ACCESS_KEY_ID").is_some(), "{chosen:?}");
        }
        let error = added(&[("AWS_PROFILE", "sso"), container]).err().unwrap();
        assert!(error.to_string().contains("has its keys by sso_session"), "{error}");
        let web = ("AWS_WEB_IDENTITY_TOKEN_FILE", "/own");
        let web = added(&[("AWS_PROFILE", "jobs"), web]).unwrap();
        assert_eq!(of(&web), [None, None, None, Some("eu-west-1")]);
    }

    #[test]
    fn a_profile_that_cannot_be_used_is_named() {
        for (profile, part) in [
            ("nobody", "AWS_PROFILE names the profile \"nobody\""),
            ("sso", "has its keys by sso_session, which"),
            ("role", "has its keys by source_profile, which"),
        ] {
            let error = added(&[("AWS_PROFILE", profile)]).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(part), "{error}");
            // With keys of one's own no profile is needed.
            let keys = [("AWS_PROFILE", profile), ("AWS_ACCESS_KEY_ID", "AKOWN")];
            assert!(added(&keys).is_ok(), "{profile}");
        }
        let error = added(&[("AWS_SHARED_CREDENTIALS_FILE", "/dev/null/x")]).err().unwrap();
        assert!(error.to_string().contains("/dev/null/x cannot be read"), "{error}");
    }

    #[test]
    fn without_files_nothing_is_added() {
        let mut variables = Variables::new([("HOME".to_owned(), "/no/such/home".to_owned())]);
        add(&mut variables).unwrap();
        assert_eq!(of(&variables), [None; 4]);
    }
}
