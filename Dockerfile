# harness: ccmix on Debian stable. testpoint: the same, and the pScheduler plugin, on a perfSONAR test point.
# Which capability and mount is for what: docs/howto/run-in-containers.md.

ARG BASE=debian:trixie-slim
ARG TESTPOINT_IMAGE=perfsonar/testpoint:v5.2.1

# ---- terms: the licences and the guide. No image is built that can't say from which commit.
FROM ${BASE} AS terms
COPY LICENSE /terms/
COPY LICENSES /terms/LICENSES
COPY docs/howto/run-in-containers.md /terms/
ARG REVISION=
RUN [ -n "$REVISION" ] || { echo "this build does not name its commit; use: container/build TARGET" >&2; exit 1; }

# ---- build: the C programs, the lab's kernel and the Python environment, in /opt/ccmix. Nothing else of it is kept. What is
# compiled has the bytes that a clone on any other distribution gets, since the compiler is pinned (tools/toolchain).
FROM ${BASE} AS build
# Where Python packages come from, if not from where pip takes them by itself; pip checks the hashes in any case.
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
ENV DEBIAN_FRONTEND=noninteractive CCMIX_CACHE=/tmp/cache
RUN apt-get update -qq \
 && apt-get install -qq --no-install-recommends \
        bc binutils bison ca-certificates clang debian-archive-keyring dpkg-dev flex make patch python3 python3-venv xz-utils
WORKDIR /src
COPY tools/cache.sh tools/debian-fetch tools/debian-mirror tools/packages.sh tools/source-fetch tools/sources.lock tools/
COPY tools/toolchain tools/toolchain
RUN tools/toolchain/build
COPY cca cca
COPY lab lab
COPY probes/common probes/common
RUN kernel=$(lab/build) \
 && install -D "$kernel" /opt/ccmix/bin/ccmix-lab-kernel \
 && install -D -t kernel "$kernel" "$(dirname "$kernel")/build.json" \
 && install "$(lab/confine/build)" /opt/ccmix/bin/ccmix-confine \
 && install "$(cca/bpf/build)" /opt/ccmix/bin/ccmix-cca \
 && cp -a "$(dirname "$(lab/userland/build)")" /opt/ccmix/userland \
 && ln -s ../userland/root /opt/ccmix/bin/ccmix-userland \
 && rm -rf /tmp/cache/lab-kernel /tmp/cache/userland
COPY iperf3-patch iperf3-patch
RUN cp -a "$(dirname "$(iperf3-patch/build)")" iperf3 && install iperf3/iperf3 /opt/ccmix/bin/ccmix-iperf3
COPY probes probes
RUN for probe in sockmon capflow rtt; do \
        install "$(probes/$probe/build)" /opt/ccmix/bin/ccmix-$probe || exit; \
    done
COPY pyproject.toml README.md ./
COPY requirements/run.txt requirements/
COPY container/python-environment container/
COPY tools/slim-packages tools/
RUN container/python-environment python3 libraries
# where links of the harness point
COPY configs configs
COPY harness harness
ARG VERSION=
RUN CCMIX_BUILD_VERSION=$VERSION container/python-environment python3 ccmix
# what container/terms reads
COPY LICENSES LICENSES
COPY packaging/building packaging/building
COPY container/terms container/

# ---- harness
FROM ${BASE} AS harness
# setuid programs are of no use to a user without capabilities; package lists and logs are of none to anybody
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
        ethtool iperf3 iproute2 iputils-ping numactl openssh-client procps python3 tcpdump tini zstd >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb /var/cache/ldconfig/aux-cache \
        /var/log/apt /var/log/dpkg.log /var/log/alternatives.log \
 && find / -xdev -type f -perm /6000 -exec chmod a-s {} + \
 && find /usr/lib/python3* -name __pycache__ -prune -exec rm -r {} + \
 && rm -rf /usr/lib/python3*/test /usr/lib/python3*/pydoc_data \
 && useradd --uid 1000 --user-group --home-dir /work --no-create-home --shell /bin/sh ccmix \
 && install -d -o ccmix -g ccmix /work \
 && install -d -m 700 /var/lib/ccmix
COPY --from=build /opt/ccmix /opt/ccmix
COPY container/import-all /opt/ccmix/container/
RUN /opt/ccmix/bin/python /opt/ccmix/container/import-all ccmix polars rich.live rich.table scipy.special \
 && rm /opt/ccmix/container/import-all \
 && /opt/ccmix/bin/python -I -m ccmix.lab.guest_code
COPY --from=terms /terms /usr/share/doc/ccmix
RUN --mount=type=bind,from=build,source=/src,target=/src --mount=type=bind,from=build,source=/tmp/cache/toolchain,target=/tmp/cache/toolchain \
    /opt/ccmix/bin/python -I /src/container/terms /usr/share/doc/ccmix
COPY container/as-root container/entrypoint container/healthcheck /opt/ccmix/container/
COPY configs /usr/share/ccmix/configs
ENV PATH=/opt/ccmix/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/work LANG=C.UTF-8
WORKDIR /work
USER ccmix
ENTRYPOINT ["/opt/ccmix/container/entrypoint"]
CMD ["--help"]
HEALTHCHECK --interval=30s --timeout=5s CMD ["/opt/ccmix/container/healthcheck"]
ARG BASE
ARG BASE_DIGEST=unknown
ARG CREATED=unknown
ARG REVISION
ARG SOURCE=unknown
ARG VERSION=
LABEL org.opencontainers.image.title="ccmix" \
      org.opencontainers.image.description="How TCP congestion control algorithms share a path" \
      org.opencontainers.image.licenses="Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND GPL-2.0-only AND LGPL-2.1-or-later AND MIT AND MPL-2.0 AND PSF-2.0 AND 0BSD AND CC0-1.0 AND Zlib AND LicenseRef-Third-Party" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.documentation="file:///usr/share/doc/ccmix/run-in-containers.md" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"

# ---- testpoint-build: the same programs, which are static, and an environment of the test point's distribution, whose
# Python is another one
FROM ${TESTPOINT_IMAGE} AS testpoint-build
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
ENV DEBIAN_FRONTEND=noninteractive
USER root
WORKDIR /src
COPY container/python-of container/
RUN apt-get update -qq \
 && apt-get install -qq --no-install-recommends \
        binutils ca-certificates dpkg-dev "$(container/python-of)" "$(container/python-of)-venv"
COPY --from=build /opt/ccmix/bin/ccmix-capflow /opt/ccmix/bin/ccmix-cca /opt/ccmix/bin/ccmix-confine \
        /opt/ccmix/bin/ccmix-lab-kernel /opt/ccmix/bin/ccmix-rtt /opt/ccmix/bin/ccmix-sockmon /opt/ccmix/bin/
COPY --from=build /opt/ccmix/userland /opt/ccmix/userland
COPY --from=build /src/iperf3 iperf3
RUN ln -s ../userland/root /opt/ccmix/bin/ccmix-userland
COPY pyproject.toml README.md ./
COPY requirements/run.txt requirements/
COPY container/python-environment container/
COPY tools/slim-packages tools/
RUN container/python-environment "$(container/python-of)" libraries
COPY tools/cache.sh tools/
COPY plugin plugin
# where the plugin's link to the group grammar points
COPY harness/ccmix/model/group_grammar.py harness/ccmix/model/
COPY packaging packaging
COPY docs/howto/try-bbr3-on-a-dtn.md docs/howto/
RUN CCMIX_IPERF3=/src/iperf3/iperf3 CCMIX_CCA=/opt/ccmix/bin/ccmix-cca plugin/build /packages
COPY lab/init lab/fstab lab/
COPY configs configs
COPY harness harness
ARG VERSION=
RUN CCMIX_BUILD_VERSION=$VERSION container/python-environment "$(container/python-of)" ccmix

# ---- testpoint: its programs, services and default user are the base's. Of ccmix, only commands get onto its PATH.
FROM ${TESTPOINT_IMAGE} AS testpoint
USER root
COPY --from=testpoint-build /opt/ccmix /opt/ccmix
COPY container/python-of container/import-all /opt/ccmix/container/
# The base has no byte code of a Python that it lacks, and what of ours is imported is compiled below
RUN --mount=type=bind,from=testpoint-build,source=/packages,target=/packages apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \
        "$(/opt/ccmix/container/python-of)" ethtool iproute2 iputils-ping numactl openssh-client procps tcpdump zstd \
        /packages/*.deb >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin /var/cache/apt/archives/*.deb \
 && python=$(/opt/ccmix/container/python-of) \
 && { [ "$python" = python3 ] || find "/usr/lib/$python" -name __pycache__ -prune -exec rm -r {} +; } \
 && ln -s /usr/lib/pscheduler-tool-iperf3mix/iperf3 /opt/ccmix/bin/ccmix-iperf3 \
 && ln -s /opt/ccmix/bin/ccmix /opt/ccmix/bin/ccmix-* /usr/local/bin/ \
 && /opt/ccmix/bin/python /opt/ccmix/container/import-all ccmix polars rich.live rich.table scipy.special \
 && rm /opt/ccmix/container/import-all \
 && /opt/ccmix/bin/python -I -m ccmix.lab.guest_code
COPY --from=terms /terms /usr/share/doc/ccmix
RUN --mount=type=bind,from=build,source=/src,target=/src --mount=type=bind,from=build,source=/tmp/cache/toolchain,target=/tmp/cache/toolchain \
    /opt/ccmix/bin/python -I /src/container/terms /usr/share/doc/ccmix
COPY configs /usr/share/ccmix/configs
HEALTHCHECK --interval=60s --timeout=30s --start-period=5m CMD ["pscheduler", "ping", "localhost"]
ARG TESTPOINT_IMAGE
ARG BASE_DIGEST=unknown
ARG CREATED=unknown
ARG REVISION
ARG SOURCE=unknown
ARG VERSION=
LABEL org.opencontainers.image.title="ccmix on a perfSONAR test point" \
      org.opencontainers.image.description="How TCP congestion control algorithms share a path" \
      org.opencontainers.image.licenses="Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND GPL-2.0-only AND LGPL-2.1-or-later AND MIT AND MPL-2.0 AND PSF-2.0 AND 0BSD AND CC0-1.0 AND Zlib AND LicenseRef-Third-Party" \
      org.opencontainers.image.url="${SOURCE}" \
      org.opencontainers.image.source="${SOURCE}" \
      org.opencontainers.image.documentation="file:///usr/share/doc/ccmix/run-in-containers.md" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.base.name="${TESTPOINT_IMAGE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
