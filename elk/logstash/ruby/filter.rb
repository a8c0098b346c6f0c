# Logstash's ruby filter: each message of pScheduler's http archiver becomes the events of its documents.

require ::File.expand_path("pscheduler_throughput", ::File.dirname(__FILE__))

UNUSABLE = "_ccmix_unusable".freeze

def register(_parameters); end

# A message that is not from a throughput test gets a tag, by which the pipeline puts it aside.
def filter(event)
  ::PschedulerThroughput.documents(event.to_hash).map do |document|
    made = ::LogStash::Event.new(document.fields)
    made.remove("@version") # the mappings are strict
    made.set("[@metadata][index]", document.index)
    made.set("[@metadata][id]", document.id)
    made
  end
rescue ::PschedulerThroughput::Unusable => error
  event.tag(UNUSABLE)
  event.set("[@metadata][reason]", error.message)
  [event]
end
