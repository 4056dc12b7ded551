// Members of consumer groups made of franz-go.
package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"ottla/tests/compat/go/members"
)

const timeout = 200 * time.Millisecond

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

func main() {
	members.Serve(run)
}

func run(member *members.Member) error {
	settings := member.Settings
	ctx := context.Background()
	commit := func(ctx context.Context, client *kgo.Client) {
		// If a rebalance rejects the commit, the next one repeats it for the partitions that are still ours.
		client.CommitUncommittedOffsets(ctx)
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(members.Addresses(settings["bootstrap.servers"])...),
		kgo.ClientID(member.Name),
		kgo.ConsumerGroup(settings["group.id"]),
		kgo.ConsumeTopics(member.Topics...),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(settings.Milliseconds("session.timeout.ms", 45*time.Second)),
		kgo.HeartbeatInterval(settings.Milliseconds("heartbeat.interval.ms", 3*time.Second)),
		kgo.FetchMaxWait(timeout),
		// A member without partitions only sends requests to its coordinator. It dials a dead one (20 times,
		// for a minute and a half) until the metadata, by default up to five minutes old, show that it is gone.
		kgo.MetadataMinAge(time.Second),
		kgo.MetadataMaxAge(3 * time.Second),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.Changed("assigned", partitions)
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
			commit(ctx, client)
			member.Changed("revoked", partitions)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			member.Changed("lost", partitions)
		}),
	}
	if os.Getenv("MEMBERS_DEBUG") != "" {
		options = append(options, kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelDebug, func() string {
			return time.Now().Format("15:04:05.000 ") + member.Name + " "
		})))
	}
	if settings["group.protocol"] == "consumer" {
		options = append(options, kgo.ServerSideBalancer())
	} else {
		options = append(options, kgo.Balancers(balancers[settings["partition.assignment.strategy"]]))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	for {
		select {
		case <-member.Closing:
			client.CloseAllowingRebalance()
			return nil
		default:
		}
		poll, cancel := context.WithTimeout(ctx, timeout)
		fetches := client.PollFetches(poll)
		cancel()
		var fatal error
		fetches.EachError(func(_ string, _ int32, err error) {
			// The client no longer retries these errors. The end of our own wait is not fatal, nor is the end
			// of a session, as when a new coordinator does not know us: the client then joins again.
			var session *kgo.ErrGroupSession
			if !errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &session) {
				fatal = err
			}
		})
		var records []members.Record
		fetches.EachRecord(func(record *kgo.Record) {
			records = append(records, members.Record{
				Partition: members.PartitionName(record.Topic, record.Partition),
				Offset:    record.Offset,
				Value:     string(record.Value),
			})
		})
		if len(records) > 0 {
			_, generation := client.GroupMetadata()
			member.Polled(generation, records)
			commit(ctx, client)
		}
		client.AllowRebalance()
		if fatal != nil {
			return fatal
		}
	}
}
