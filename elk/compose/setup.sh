#!/usr/bin/env bash
# Sets up Elasticsearch and Kibana for compose.yaml, whose services run each of these commands once:
#
#   setup.sh secrets FOLDER         make missing passwords
#   setup.sh healthy FOLDER         whether Elasticsearch answers, with the password
#   setup.sh elasticsearch FOLDER   users, roles, lifecycle policy, index templates and indices
#   setup.sh kibana FOLDER          data views, charts and dashboards
#
# FOLDER holds a file for each password. Passwords go to curl by its standard input, so that no list of processes shows
# them. ELASTICSEARCH and KIBANA are the URLs; in the container of Elasticsearch, its own address is the default.
set -euo pipefail

elk=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=${2:?the folder of the passwords}
elasticsearch=${ELASTICSEARCH:-http://localhost:9200}
kibana=${KIBANA:-http://localhost:5601}

say() { echo "setup: $*" >&2; }

# as USER CURL-ARGUMENT...: prints the server's answer; if the server refuses, prints that and fails.
as() {
	local login
	login="user = \"$1:$(cat "$folder/$1")\""
	shift
	curl --config - --silent --show-error --fail-with-body --max-time 60 "$@" <<<"$login"
}

# put PATH FILE: into Elasticsearch.
put() {
	as elastic --output /dev/null --request PUT "$elasticsearch/$1" --header 'Content-Type: application/json' --data "@$2"
}

# A password has letters and digits only: 190 bits of the kernel's random numbers.
make_secrets() {
	local name
	umask 077
	for name in elastic kibana_system ccmix kibana-key; do
		[ -s "$folder/$name" ] || head --bytes 1000 /dev/urandom | tr --delete --complement 'A-Za-z0-9' | head --bytes 32 >"$folder/$name"
	done
	# Elasticsearch and Kibana run as user 1000; the image refuses passwords that others can read
	chown 1000:0 "$folder" "$folder"/*
	chmod 500 "$folder"
	chmod 400 "$folder"/*
}

# Each object has the name of its file.
load() {
	local file
	for file in "$elk/elasticsearch/$2"/*.json; do
		put "$1/$(basename "$file" .json)" "$file"
	done
	say "loaded: $2"
}

# The indices that are kept, and an empty index for each kind of samples, without which Kibana reports an error. The
# clients that send samples make their indices, month by month; the policy that deletes these does not touch the empty ones.
make_indices() {
	local file name index
	for file in "$elk/elasticsearch/index-templates"/*.json; do
		name=$(basename "$file" .json)
		index=$name
		! grep --quiet "\"$name-\*\"" "$file" || index=$name-empty
		as elastic --output /dev/null --head "$elasticsearch/$index" 2>/dev/null && continue
		as elastic --output /dev/null --request PUT "$elasticsearch/$index"
		[ "$index" = "$name" ] || as elastic --output /dev/null --request POST "$elasticsearch/$index/_ilm/remove"
	done
	say "made: indices"
}

# user NAME ROLE...: with its password from the folder.
make_user() {
	local name=$1 roles
	shift
	roles=$(printf '"%s",' "$@")
	put "_security/user/$name" <(printf '{"password":"%s","roles":[%s]}' "$(cat "$folder/$name")" "${roles%,}")
}

set_up_elasticsearch() {
	as elastic --output /dev/null --request POST "$elasticsearch/_security/user/kibana_system/_password" \
		--header 'Content-Type: application/json' --data @<(printf '{"password":"%s"}' "$(cat "$folder/kibana_system")")
	load _security/role roles
	make_user ccmix ccmix-writer ccmix-reader
	load _ilm/policy ilm
	load _index_template index-templates
	make_indices
}

set_up_kibana() {
	local said
	said=$(as elastic --request POST "$kibana/api/saved_objects/_import?overwrite=true" --header 'kbn-xsrf: true' \
		--form "file=@$elk/kibana/ccmix.ndjson")
	# Kibana also answers 200 if it took only some of the objects
	[[ ${said// /} == *'"success":true'* ]] || {
		say "Kibana doesn't take all objects: $said"
		exit 1
	}
	say "loaded: dashboards"
}

case "$1" in
secrets) make_secrets ;;
healthy) as elastic --output /dev/null "$elasticsearch/_cluster/health?wait_for_status=yellow&timeout=5s" ;;
elasticsearch) set_up_elasticsearch ;;
kibana) set_up_kibana ;;
*)
	say "what is '$1'?"
	exit 2
	;;
esac
