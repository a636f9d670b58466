# The production image: one static binary without a shell, run by nobody in
# particular. It goes without "holdpoint dev" and the servers embedded for it
# (build tag nodev).
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
COPY internal/devserver/autoscaling/go.mod internal/devserver/autoscaling/
COPY clients/go/go.mod clients/go/
COPY clients/temporal/go.mod clients/temporal/
RUN --mount=type=cache,target=/go/pkg/mod go mod download
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    CGO_ENABLED=0 go build -tags nodev -trimpath -ldflags "-s -w" -o /holdpoint ./cmd/holdpoint && mkdir /floor

FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /holdpoint /holdpoint
# A volume that is mounted here belongs to the user whom this directory belongs to.
COPY --from=build --chown=65532:65532 /floor /var/lib/holdpoint
USER nonroot:nonroot
# Inside a container loopback is nobody's; what is published is for the operator to say.
ENV HOLDPOINT_LISTEN=0.0.0.0:8080
EXPOSE 8080
# Ready means that decisions can be made durable. Temporal may be away.
HEALTHCHECK --interval=10s --timeout=6s --start-period=20s --retries=3 CMD ["/holdpoint", "healthcheck"]
ENTRYPOINT ["/holdpoint"]
CMD ["serve"]
