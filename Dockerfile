# harness: ccmix on Debian stable. testpoint: the same, and the pScheduler plugin, on a perfSONAR test point.
# Which capability and mount is for what: docs/containers.md.

ARG BASE=debian:trixie-slim
ARG TESTPOINT_IMAGE=perfsonar/testpoint:v5.2.3

# ---- build: the C programs, the lab's kernel and the Python environment, in /opt/ccmix. Nothing else of it is kept.
FROM ${BASE} AS build
# Where Python packages come from, if not from where pip takes them by itself; pip checks the hashes in any case.
ARG PIP_INDEX_URL=
ARG PIP_EXTRA_INDEX_URL=
ENV DEBIAN_FRONTEND=noninteractive CCMIX_CACHE=/tmp/cache
RUN apt-get update -qq \
 && apt-get install -qq --no-install-recommends \
        bc binutils bison ca-certificates debian-archive-keyring dpkg-dev flex gcc libc6-dev libpcap-dev make patch \
        python3 python3-pip python3-venv xz-utils
WORKDIR /src
COPY tools/cache.sh tools/debian-fetch tools/debian-mirror tools/
COPY lab lab
RUN install -D "$(lab/build)" /opt/ccmix/bin/ccmix-lab-kernel && rm -rf /tmp/cache
COPY iperf3-patch iperf3-patch
RUN install -s "$(iperf3-patch/build)" /opt/ccmix/bin/ccmix-iperf3 && rm -rf /tmp/cache
COPY probes probes
RUN for probe in sockmon capflow rtt; do \
        install -s "$(probes/$probe/build)" /opt/ccmix/bin/ccmix-$probe || exit; \
    done && rm -rf /tmp/cache
COPY requirements.txt .
# A third of the environment is of no use to those who run ccmix: debug symbols, the libraries' own tests, headers, a
# compiler of Fortran's interfaces, and a hundred languages that nobody prints in colour.
RUN python3 -m venv --without-pip /opt/ccmix \
 && python3 -m pip --python /opt/ccmix/bin/python install --quiet --no-cache-dir --no-compile --require-hashes \
        --requirement requirements.txt \
 && find /opt/ccmix/lib -name '*.so*' -type f -exec strip --strip-unneeded {} + \
 && find /opt/ccmix/lib -name tests -type d -prune -exec rm -r {} + \
 && find /opt/ccmix/lib -type f -regex '.*\.\(a\|h\|pxd\|pyi\)' -delete \
 && rm -r /opt/ccmix/lib/python3.*/site-packages/numpy/f2py /opt/ccmix/bin/f2py \
 && find /opt/ccmix/lib -path '*/pygments/lexers/*' -not -name __init__.py -not -name _mapping.py -delete
COPY pyproject.toml README.md ./
COPY harness harness
# setuptools builds ccmix, and is of no use afterwards
RUN python3 -m pip --python /opt/ccmix/bin/python install --quiet --no-cache-dir --no-compile --no-deps \
        --no-build-isolation . \
 && python3 -m pip --python /opt/ccmix/bin/python uninstall --quiet --yes setuptools

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
 && useradd --uid 1000 --user-group --home-dir /work --no-create-home --shell /bin/sh ccmix \
 && install -d -o ccmix -g ccmix /work \
 && install -d /var/lib/ccmix
COPY --from=build /opt/ccmix /opt/ccmix
COPY container/entrypoint container/healthcheck container/import-all /opt/ccmix/container/
# Python compiles what it imports, and keeps it: what ccmix uses, in a quarter of the room of all that there is
RUN /opt/ccmix/bin/python /opt/ccmix/container/import-all ccmix altair polars rich.live rich.table \
 && rm /opt/ccmix/container/import-all
COPY configs /usr/share/ccmix/configs
ENV PATH=/opt/ccmix/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/work LANG=C.UTF-8
WORKDIR /work
USER ccmix
ENTRYPOINT ["tini", "-g", "--", "/opt/ccmix/container/entrypoint"]
CMD ["--help"]
HEALTHCHECK --interval=30s --timeout=5s CMD ["/opt/ccmix/container/healthcheck"]
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ccmix" \
      org.opencontainers.image.description="How TCP congestion control algorithms share a path" \
      org.opencontainers.image.licenses="Apache-2.0 AND BSD-3-Clause AND GPL-2.0-only" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
