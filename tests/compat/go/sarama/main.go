// Members of consumer groups made of sarama.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"

	"ottla/tests/compat/go/members"
)

var strategies = map[string]sarama.BalanceStrategy{
	"range":      sarama.NewBalanceStrategyRange(),
	"roundrobin": sarama.NewBalanceStrategyRoundRobin(),
	"sticky":     sarama.NewBalanceStrategySticky(),
}

func main() {
	sarama.Logger = log.New(io.Discard, "", 0)
	if os.Getenv("MEMBERS_DEBUG") != "" {
		sarama.Logger = log.New(os.Stderr, "", log.LstdFlags)
	}
	members.Serve(run)
}

func run(member *members.Member) error {
	settings := member.Settings
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.ClientID = member.Name
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 200 * time.Millisecond
	config.Consumer.Group.Session.Timeout = settings.Milliseconds("session.timeout.ms", 45*time.Second)
	config.Consumer.Group.Heartbeat.Interval = settings.Milliseconds("heartbeat.interval.ms", 3*time.Second)
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{
		strategies[settings["partition.assignment.strategy"]],
	}
	group, err := sarama.NewConsumerGroup(members.Addresses(settings["bootstrap.servers"]), settings["group.id"], config)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(context.Background())
	go func() {
		<-member.Closing
		leave()
	}()
	for ctx.Err() == nil {
		// Consume returns when the group rebalances; after an error it is called again.
		if err := group.Consume(ctx, member.Topics, &handler{member: member}); err != nil {
			time.Sleep(100 * time.Millisecond)
		}
	}
	return group.Close()
}

type handler struct {
	member *members.Member
}

func (h *handler) Setup(session sarama.ConsumerGroupSession) error {
	h.member.Changed("assigned", session.Claims())
	return nil
}

func (h *handler) Cleanup(session sarama.ConsumerGroupSession) error {
	session.Commit()
	h.member.Changed("revoked", session.Claims())
	return nil
}

func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, isOpen := <-claim.Messages():
			if !isOpen {
				return nil
			}
			h.member.Polled(session.GenerationID(), []members.Record{{
				Partition: members.PartitionName(message.Topic, message.Partition),
				Offset:    message.Offset,
				Value:     string(message.Value),
			}})
			session.MarkMessage(message, "")
			if len(claim.Messages()) == 0 {
				session.Commit()
			}
		case <-session.Context().Done():
			return nil
		}
	}
}
