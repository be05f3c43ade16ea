# ruff: noqa: E501
"""Names that transformers releases 4.30 to 5.24 have lost, read off their wheels.

A line is: module, first compared release that has it, first that has not, the names (with the
module that defines it now, where there is one); a line without names is a module that is gone.
"""

NAMES = """
transformers.activations_tf 4.30.2 5.0.0
transformers.agents 4.42.4 4.52.4
transformers.benchmark 4.30.2 4.49.0
transformers.cli.add_fast_image_processor 5.0.0 5.4.0
transformers.data.datasets 4.30.2 5.20.2
transformers.data.datasets.language_modeling 4.30.2 5.0.0
transformers.data.metrics 4.30.2 5.20.2
transformers.data.processors 4.30.2 5.20.2
transformers.deepspeed 4.30.2 4.46.3
transformers.generation.beam_constraints 4.30.2 5.0.0
transformers.generation.beam_search 4.30.2 5.0.0
transformers.generation.continuous_batching.cache_manager 4.57.6 5.18.0
transformers.generation.continuous_batching.classes 4.56.2 4.57.6
transformers.generation.continuous_batching.input_ouputs 5.1.0 5.3.0
transformers.generation.flax_logits_process 4.30.2 5.0.0
transformers.generation.flax_utils 4.30.2 5.0.0
transformers.generation.tf_logits_process 4.30.2 5.0.0
transformers.generation.tf_utils 4.30.2 5.0.0
transformers.generation_utils 4.30.2 4.40.2
transformers.integrations.quark 5.0.0 5.21.1
transformers.keras_callbacks 4.30.2 5.0.0
transformers.kernels 4.45.2 5.0.0
transformers.modeling_attn_mask_utils 4.38.2 5.24.0
transformers.models.bort 4.30.2 4.38.2
transformers.models.deformable_detr.load_custom 4.30.2 4.50.3
transformers.models.deprecated.deta 4.42.4 5.0.0
transformers.models.deprecated.efficientformer 4.42.4 5.0.0
transformers.models.deprecated.ernie_m 4.42.4 5.0.0
transformers.models.deprecated.gptsan_japanese 4.42.4 5.0.0
transformers.models.deprecated.graphormer 4.42.4 5.0.0
transformers.models.deprecated.jukebox 4.42.4 5.0.0
transformers.models.deprecated.mctct 4.38.2 5.0.0
transformers.models.deprecated.mega 4.42.4 5.0.0
transformers.models.deprecated.mmbt.modeling_mmbt 4.38.2 5.0.0
transformers.models.deprecated.nat 4.42.4 5.0.0
transformers.models.deprecated.nezha 4.42.4 5.0.0
transformers.models.deprecated.open_llama 4.38.2 5.0.0
transformers.models.deprecated.qdqbert 4.42.4 5.0.0
transformers.models.deprecated.realm 4.42.4 5.0.0
transformers.models.deprecated.retribert 4.38.2 5.0.0
transformers.models.deprecated.speech_to_text_2 4.42.4 5.0.0
transformers.models.deprecated.trajectory_transformer 4.38.2 5.0.0
transformers.models.deprecated.transfo_xl 4.38.2 5.0.0
transformers.models.deprecated.tvlt 4.42.4 5.0.0
transformers.models.deprecated.van 4.38.2 5.0.0
transformers.models.deprecated.vit_hybrid 4.42.4 5.0.0
transformers.models.deprecated.xlm_prophetnet 4.42.4 5.0.0
transformers.models.deta 4.30.2 4.42.4
transformers.models.dialogpt 4.30.2 5.15.1
transformers.models.dit 4.30.2 5.15.1
transformers.models.efficientformer 4.30.2 4.42.4
transformers.models.ernie_m 4.30.2 4.42.4
transformers.models.gemma.diff_gemma 4.42.4 4.45.2
transformers.models.gemma2.diff_gemma2 4.42.4 4.45.2
transformers.models.gptsan_japanese 4.30.2 4.42.4
transformers.models.graphormer 4.30.2 4.42.4
transformers.models.idefics.perceiver_tf 4.42.4 5.0.0
transformers.models.idefics.vision_tf 4.42.4 5.0.0
transformers.models.instructblipvideo.diff_instructblipvideo 4.42.4 4.45.2
transformers.models.jukebox 4.30.2 4.42.4
transformers.models.llava_next_video.diff_llava_next_video 4.42.4 4.45.2
transformers.models.mctct 4.30.2 4.38.2
transformers.models.mega 4.30.2 4.42.4
transformers.models.megatron_gpt2 4.30.2 5.15.1
transformers.models.mmbt 4.30.2 4.38.2
transformers.models.nat 4.30.2 4.42.4
transformers.models.nezha 4.30.2 4.42.4
transformers.models.open_llama 4.30.2 4.38.2
transformers.models.qdqbert 4.30.2 4.42.4
transformers.models.realm 4.30.2 4.42.4
transformers.models.retribert 4.30.2 4.38.2
transformers.models.speech_to_text_2 4.30.2 4.42.4
transformers.models.tapex 4.30.2 4.38.2
transformers.models.trajectory_transformer 4.30.2 4.38.2
transformers.models.transfo_xl 4.30.2 4.38.2
transformers.models.tvlt 4.30.2 4.42.4
transformers.models.van 4.30.2 4.38.2
transformers.models.vit_hybrid 4.30.2 4.42.4
transformers.models.xlm_prophetnet 4.30.2 4.42.4
transformers.onnx 4.30.2 5.0.0
transformers.optimization_tf 4.30.2 5.0.0
transformers.pipelines.conversational 4.30.2 4.42.4
transformers.pipelines.image_to_image 4.38.2 5.3.0
transformers.pipelines.image_to_text 4.30.2 5.0.0
transformers.pipelines.question_answering 4.30.2 5.3.0
transformers.pipelines.text2text_generation 4.30.2 5.0.0
transformers.pipelines.visual_question_answering 4.30.2 5.3.0
transformers.sagemaker 4.30.2 5.0.0
transformers.tf_utils 4.30.2 5.0.0
transformers.tools 4.30.2 4.42.4
transformers.trainer_tf 4.30.2 4.38.2
transformers.training_args_tf 4.30.2 5.0.0
transformers.utils._typing 5.3.0 5.4.0
transformers.utils.args_doc 4.52.4 4.54.1
transformers.utils.bitsandbytes 4.30.2 5.0.0
transformers.utils.chat_parsing_utils 5.0.0 5.15.1
transformers.utils.dummy_keras_nlp_objects 4.30.2 4.52.4
transformers.utils.dummy_sentencepiece_objects 4.30.2 5.0.0
transformers.utils.dummy_tensorflow_text_objects 4.30.2 5.0.0
transformers.utils.fx 4.30.2 5.0.0
transformers.utils.metrics 4.53.3 5.9.0
transformers.utils.model_parallel_utils 4.30.2 5.0.0
transformers 4.38.2 4.45.2 ForceTokensLogitsProcessor
transformers 4.42.4 4.45.2 HfEngine
transformers 4.30.2 4.46.3 deepspeed is_decord_available=transformers.utils.import_utils
transformers 4.30.2 4.49.0 LogitsWarper PyTorchBenchmark PyTorchBenchmarkArguments
transformers 4.30.2 4.49.0 TensorFlowBenchmark TensorFlowBenchmarkArguments benchmark
transformers 4.30.2 4.50.3 AdamW
transformers 4.30.2 4.51.3 is_torch_tpu_available
transformers 4.30.2 4.52.4 Agent PipelineTool Tool launch_gradio_demo load_tool
transformers 4.42.4 4.52.4 CodeAgent ReactAgent ReactCodeAgent ReactJsonAgent ToolCollection
transformers 4.42.4 4.52.4 Toolbox agents
transformers 4.44.2 4.52.4 stream_to_gradio
transformers 4.42.4 4.56.2 CacheConfig QuantizedCacheConfig
transformers 4.30.2 4.57.6 BeamSearchScorer HammingDiversityLogitsProcessor
transformers 4.30.2 5.0.0 AdamWeightDecay AdaptiveEmbedding
transformers 4.30.2 5.0.0 AutoModelForVision2Seq AutoModelWithLMHead
transformers 4.30.2 5.0.0 BeamScorer BeitFeatureExtractor
transformers 4.30.2 5.0.0 CLIPFeatureExtractor
transformers 4.30.2 5.0.0 ChineseCLIPFeatureExtractor
transformers 4.30.2 5.0.0 ConditionalDetrFeatureExtractor ConstrainedBeamSearchScorer Constraint
transformers 4.30.2 5.0.0 ConstraintListState ConvNextFeatureExtractor
transformers 4.30.2 5.0.0 DPTFeatureExtractor
transformers 4.30.2 5.0.0 DeformableDetrFeatureExtractor DeiTFeatureExtractor DetaConfig
transformers 4.30.2 5.0.0 DetaForObjectDetection DetaImageProcessor DetaModel DetaPreTrainedModel
transformers 4.30.2 5.0.0 DetrFeatureExtractor DisjunctiveConstraint DonutFeatureExtractor
transformers 4.30.2 5.0.0 EfficientFormerConfig EfficientFormerForImageClassification
transformers 4.30.2 5.0.0 EfficientFormerForImageClassificationWithTeacher
transformers 4.30.2 5.0.0 EfficientFormerImageProcessor EfficientFormerModel
transformers 4.30.2 5.0.0 EfficientFormerPreTrainedModel
transformers 4.30.2 5.0.0 ErnieMConfig ErnieMForInformationExtraction ErnieMForMultipleChoice
transformers 4.30.2 5.0.0 ErnieMForQuestionAnswering ErnieMForSequenceClassification
transformers 4.30.2 5.0.0 ErnieMForTokenClassification ErnieMModel ErnieMPreTrainedModel
transformers 4.30.2 5.0.0 ErnieMTokenizer FLAX_MODEL_FOR_CAUSAL_LM_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_MASKED_LM_MAPPING FLAX_MODEL_FOR_MULTIPLE_CHOICE_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_PRETRAINING_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_QUESTION_ANSWERING_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING
transformers 4.30.2 5.0.0 FLAX_MODEL_FOR_VISION_2_SEQ_MAPPING FLAX_MODEL_MAPPING
transformers 4.30.2 5.0.0 FlavaFeatureExtractor GLPNFeatureExtractor
transformers 4.30.2 5.0.0 GPTSanJapaneseConfig
transformers 4.30.2 5.0.0 GPTSanJapaneseForConditionalGeneration GPTSanJapaneseModel
transformers 4.30.2 5.0.0 GPTSanJapanesePreTrainedModel GPTSanJapaneseTokenizer
transformers 4.30.2 5.0.0 GradientAccumulator GraphormerConfig GraphormerForGraphClassification
transformers 4.30.2 5.0.0 GraphormerModel GraphormerPreTrainedModel
transformers 4.30.2 5.0.0 ImageGPTFeatureExtractor ImageToTextPipeline JukeboxConfig JukeboxModel
transformers 4.30.2 5.0.0 JukeboxPreTrainedModel JukeboxPrior JukeboxPriorConfig JukeboxTokenizer
transformers 4.30.2 5.0.0 JukeboxVQVAE JukeboxVQVAEConfig KerasMetricCallback
transformers 4.30.2 5.0.0 LEDForSequenceClassification
transformers 4.30.2 5.0.0 LayoutLMv2FeatureExtractor
transformers 4.30.2 5.0.0 LayoutLMv3FeatureExtractor LevitFeatureExtractor
transformers 4.30.2 5.0.0 LineByLineTextDataset LineByLineWithRefDataset
transformers 4.30.2 5.0.0 LineByLineWithSOPTextDataset
transformers 4.30.2 5.0.0 MCTCTConfig
transformers 4.30.2 5.0.0 MCTCTFeatureExtractor MCTCTForCTC MCTCTModel MCTCTPreTrainedModel
transformers 4.30.2 5.0.0 MCTCTProcessor MMBTConfig MMBTForClassification MMBTModel
transformers 4.30.2 5.0.0 MODEL_FOR_VISION_2_SEQ_MAPPING MODEL_WITH_LM_HEAD_MAPPING
transformers 4.30.2 5.0.0 MT5Tokenizer
transformers 4.30.2 5.0.0 MaskFormerFeatureExtractor MegaConfig MegaForCausalLM MegaForMaskedLM
transformers 4.30.2 5.0.0 MegaForMultipleChoice MegaForQuestionAnswering
transformers 4.30.2 5.0.0 MegaForSequenceClassification MegaForTokenClassification MegaModel
transformers 4.30.2 5.0.0 MegaPreTrainedModel MobileNetV1FeatureExtractor
transformers 4.30.2 5.0.0 MobileNetV2FeatureExtractor MobileViTFeatureExtractor ModalEmbeddings
transformers 4.30.2 5.0.0 ModelCard NatBackbone NatConfig
transformers 4.30.2 5.0.0 NatForImageClassification NatModel NatPreTrainedModel NezhaConfig
transformers 4.30.2 5.0.0 NezhaForMaskedLM NezhaForMultipleChoice NezhaForNextSentencePrediction
transformers 4.30.2 5.0.0 NezhaForPreTraining NezhaForQuestionAnswering
transformers 4.30.2 5.0.0 NezhaForSequenceClassification NezhaForTokenClassification NezhaModel
transformers 4.30.2 5.0.0 NezhaPreTrainedModel
transformers 4.30.2 5.0.0 OpenLlamaConfig OpenLlamaForCausalLM OpenLlamaForSequenceClassification
transformers 4.30.2 5.0.0 OpenLlamaModel OpenLlamaPreTrainedModel OwlViTFeatureExtractor
transformers 4.30.2 5.0.0 PYTORCH_PRETRAINED_BERT_CACHE PYTORCH_TRANSFORMERS_CACHE
transformers 4.30.2 5.0.0 PerceiverFeatureExtractor PhrasalConstraint
transformers 4.30.2 5.0.0 PoolFormerFeatureExtractor ProjectedAdaptiveLogSoftmax PushToHubCallback
transformers 4.30.2 5.0.0 QDQBertConfig QDQBertForMaskedLM QDQBertForMultipleChoice
transformers 4.30.2 5.0.0 QDQBertForNextSentencePrediction QDQBertForQuestionAnswering
transformers 4.30.2 5.0.0 QDQBertForSequenceClassification QDQBertForTokenClassification
transformers 4.30.2 5.0.0 QDQBertLMHeadModel QDQBertLayer QDQBertModel QDQBertPreTrainedModel
transformers 4.30.2 5.0.0 RealmConfig RealmEmbedder RealmForOpenQA RealmKnowledgeAugEncoder
transformers 4.30.2 5.0.0 RealmPreTrainedModel RealmReader RealmRetriever RealmScorer
transformers 4.30.2 5.0.0 RealmTokenizer
transformers 4.30.2 5.0.0 RetriBertConfig RetriBertModel
transformers 4.30.2 5.0.0 RetriBertPreTrainedModel RetriBertTokenizer
transformers 4.30.2 5.0.0 SegformerFeatureExtractor SpecialTokensMixin Speech2Text2Config
transformers 4.30.2 5.0.0 Speech2Text2ForCausalLM Speech2Text2PreTrainedModel
transformers 4.30.2 5.0.0 Speech2Text2Processor Speech2Text2Tokenizer
transformers 4.30.2 5.0.0 SummarizationPipeline TRANSFORMERS_CACHE TapexTokenizer
transformers 4.30.2 5.0.0 Text2TextGenerationPipeline TextDataset
transformers 4.30.2 5.0.0 TextDatasetForNextSentencePrediction TrajectoryTransformerConfig
transformers 4.30.2 5.0.0 TrajectoryTransformerModel TrajectoryTransformerPreTrainedModel
transformers 4.30.2 5.0.0 TransfoXLConfig TransfoXLCorpus TransfoXLForSequenceClassification
transformers 4.30.2 5.0.0 TransfoXLLMHeadModel TransfoXLModel TransfoXLPreTrainedModel
transformers 4.30.2 5.0.0 TransfoXLTokenizer TranslationPipeline TvltConfig TvltFeatureExtractor
transformers 4.30.2 5.0.0 TvltForAudioVisualClassification TvltForPreTraining TvltImageProcessor
transformers 4.30.2 5.0.0 TvltModel TvltPreTrainedModel TvltProcessor VanConfig
transformers 4.30.2 5.0.0 VanForImageClassification VanModel VanPreTrainedModel
transformers 4.30.2 5.0.0 ViTFeatureExtractor ViTHybridConfig ViTHybridForImageClassification
transformers 4.30.2 5.0.0 ViTHybridImageProcessor ViTHybridModel ViTHybridPreTrainedModel
transformers 4.30.2 5.0.0 VideoMAEFeatureExtractor ViltFeatureExtractor WarmUp Wav2Vec2ForMaskedLM
transformers 4.30.2 5.0.0 Wav2Vec2Tokenizer
transformers 4.30.2 5.0.0 XLMProphetNetConfig XLMProphetNetDecoder XLMProphetNetEncoder
transformers 4.30.2 5.0.0 XLMProphetNetForCausalLM XLMProphetNetForConditionalGeneration
transformers 4.30.2 5.0.0 XLMProphetNetModel XLMProphetNetPreTrainedModel XLMProphetNetTokenizer
transformers 4.30.2 5.0.0 YolosFeatureExtractor
transformers 4.30.2 5.0.0 activations_tf commands convert_graph_to_onnx
transformers 4.30.2 5.0.0 convert_tf_hub_seq_to_seq_bert_to_pytorch
transformers 4.30.2 5.0.0 convert_tf_weight_name_to_pt_weight_name create_optimizer
transformers 4.30.2 5.0.0 is_flax_available is_keras_nlp_available is_safetensors_available
transformers 4.30.2 5.0.0 is_sigopt_available is_tensorflow_text_available is_tf_available
transformers 4.30.2 5.0.0 keras_callbacks load_pytorch_checkpoint_in_tf2_model
transformers 4.30.2 5.0.0 load_pytorch_model_in_tf2_model load_pytorch_weights_in_tf2_model
transformers 4.30.2 5.0.0 load_tf2_checkpoint_in_pytorch_model load_tf2_model_in_pytorch_model
transformers 4.30.2 5.0.0 load_tf2_weights_in_pytorch_model load_tf_weights_in_albert
transformers 4.30.2 5.0.0 load_tf_weights_in_bert load_tf_weights_in_bert_generation
transformers 4.30.2 5.0.0 load_tf_weights_in_big_bird load_tf_weights_in_canine
transformers 4.30.2 5.0.0 load_tf_weights_in_convbert load_tf_weights_in_electra
transformers 4.30.2 5.0.0 load_tf_weights_in_funnel load_tf_weights_in_gpt2
transformers 4.30.2 5.0.0 load_tf_weights_in_gpt_neo load_tf_weights_in_imagegpt
transformers 4.30.2 5.0.0 load_tf_weights_in_mobilebert load_tf_weights_in_mobilenet_v1
transformers 4.30.2 5.0.0 load_tf_weights_in_mobilenet_v2 load_tf_weights_in_openai_gpt
transformers 4.30.2 5.0.0 load_tf_weights_in_qdqbert load_tf_weights_in_realm
transformers 4.30.2 5.0.0 load_tf_weights_in_rembert load_tf_weights_in_roc_bert
transformers 4.30.2 5.0.0 load_tf_weights_in_roformer load_tf_weights_in_t5
transformers 4.30.2 5.0.0 load_tf_weights_in_tapas load_tf_weights_in_transfo_xl
transformers 4.30.2 5.0.0 load_tf_weights_in_xlnet modeling_flax_outputs modeling_flax_utils
transformers 4.30.2 5.0.0 modeling_tf_outputs modeling_tf_pytorch_utils modeling_tf_utils onnx
transformers 4.30.2 5.0.0 optimization_tf prune_layer sagemaker shape_list tf_utils
transformers 4.30.2 5.0.0 training_args_tf
transformers 4.38.2 5.0.0 FLAX_MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING
transformers 4.38.2 5.0.0 SinkCache
transformers 4.42.4 5.0.0 HQQQuantizedCache InstructBlipVideoImageProcessor
transformers 4.42.4 5.0.0 LlavaNextVideoImageProcessor QuantoQuantizedCache SlidingWindowCache
transformers 4.44.2 5.0.0 HybridCache OffloadedCache
transformers 4.45.2 5.0.0 OffloadedStaticCache
transformers 4.51.3 5.0.0 HybridChunkedCache
transformers 4.54.1 5.0.0 ChunkedSlidingLayer MistralCommonTokenizer SlidingWindowLayer
transformers 4.56.2 5.0.0 infer_device=transformers.utils.kernel_config
transformers 4.30.2 5.3.0 QuestionAnsweringPipeline VisualQuestionAnsweringPipeline
transformers 4.38.2 5.3.0 ImageToImagePipeline
transformers 4.40.2 5.5.4 MambaCache
transformers 4.30.2 5.6.2 MODEL_NAMES_MAPPING
transformers 4.30.2 5.20.2 DataCollatorForSOP DataCollatorForWholeWordMask DataProcessor
transformers 4.30.2 5.20.2 GlueDataTrainingArguments GlueDataset InputExample InputFeatures
transformers 4.30.2 5.20.2 SingleSentenceClassificationProcessor SquadDataTrainingArguments
transformers 4.30.2 5.20.2 SquadDataset SquadExample SquadFeatures SquadV1Processor
transformers 4.30.2 5.20.2 SquadV2Processor glue_compute_metrics glue_convert_examples_to_features
transformers 4.30.2 5.20.2 glue_output_modes glue_processors glue_tasks_num_labels
transformers 4.30.2 5.20.2 squad_convert_examples_to_features xnli_compute_metrics
transformers 4.30.2 5.20.2 xnli_output_modes xnli_processors xnli_tasks_num_labels
transformers.audio_utils 4.30.2 4.54.1 fram_wave get_mel_filter_banks stft
transformers.audio_utils 4.51.3 5.23.0 is_librosa_available=transformers.utils.import_utils
transformers.audio_utils 4.56.2 5.23.0 is_torchcodec_available=transformers.utils.import_utils
transformers.cache_utils 4.42.4 4.47.1 is_quanto_available
transformers.cache_utils 4.44.2 4.54.1 MambaCache
transformers.cache_utils 4.50.3 4.54.1 _flatten_dynamic_cache _flatten_dynamic_cache_for_fx
transformers.cache_utils 4.50.3 4.54.1 _flatten_with_keys_dynamic_cache
transformers.cache_utils 4.42.4 4.56.2 CacheConfig QuantizedCacheConfig
transformers.cache_utils 4.45.2 4.56.2 StaticCacheConfig
transformers.cache_utils 4.50.3 4.56.2 _unflatten_dynamic_cache is_torch_greater_or_equal_than_2_6
transformers.cache_utils 4.38.2 5.0.0 PretrainedConfig SinkCache
transformers.cache_utils 4.42.4 5.0.0 HQQQuantizedCache HybridCache QuantoQuantizedCache
transformers.cache_utils 4.44.2 5.0.0 OffloadedCache
transformers.cache_utils 4.45.2 5.0.0 OffloadedStaticCache
transformers.cache_utils 4.51.3 5.0.0 HybridChunkedCache
transformers.cache_utils 4.52.4 5.0.0 OffloadedHybridCache
transformers.cache_utils 4.54.1 5.0.0 ChunkedSlidingLayer SlidingWindowLayer
transformers.configuration_utils 4.30.2 4.51.3 _re_configuration_file
transformers.configuration_utils 4.30.2 4.53.3 add_model_info_to_auto_map
transformers.configuration_utils 4.42.4 4.53.3 add_model_info_to_custom_pipelines
transformers.configuration_utils 4.30.2 5.0.0 download_url is_remote_url
transformers.configuration_utils 4.54.1 5.0.0 SpecificPretrainedConfigType
transformers.configuration_utils 5.0.0 5.4.0 ALLOWED_ATTENTION_LAYER_TYPES
transformers.configuration_utils 4.30.2 5.18.0 extract_commit_hash=transformers.utils.hub
transformers.configuration_utils 4.42.4 5.21.1 load_gguf_checkpoint=transformers.modeling_gguf_pytorch_utils
transformers.feature_extraction_utils 4.30.2 4.53.3 add_model_info_to_auto_map
transformers.feature_extraction_utils 4.42.4 4.53.3 add_model_info_to_custom_pipelines
transformers.feature_extraction_utils 4.30.2 5.0.0 download_url is_flax_available is_jax_tensor
transformers.feature_extraction_utils 4.30.2 5.0.0 is_remote_url is_tf_available
transformers.file_utils 4.30.2 4.40.2 is_torch_tpu_available
transformers.file_utils 4.30.2 4.48.3 is_soundfile_availble
transformers.file_utils 4.30.2 4.49.0 get_cached_models
transformers.file_utils 4.30.2 4.50.3 get_file_from_repo
transformers.file_utils 4.30.2 4.57.6 cached_property
transformers.file_utils 4.30.2 5.0.0 FLAX_WEIGHTS_NAME HUGGINGFACE_CO_PREFIX
transformers.file_utils 4.30.2 5.0.0 HUGGINGFACE_CO_RESOLVE_ENDPOINT PYTORCH_PRETRAINED_BERT_CACHE
transformers.file_utils 4.30.2 5.0.0 PYTORCH_TRANSFORMERS_CACHE TORCH_FX_REQUIRED_VERSION
transformers.file_utils 4.30.2 5.0.0 TRANSFORMERS_CACHE USE_JAX USE_TF USE_TORCH
transformers.file_utils 4.30.2 5.0.0 default_cache_path is_flax_available is_offline_mode
transformers.file_utils 4.30.2 5.0.0 is_tensorflow_probability_available is_tf2onnx_available
transformers.file_utils 4.30.2 5.0.0 is_tf_available is_torch_bf16_available is_torch_fx_available
transformers.file_utils 4.30.2 5.1.0 is_ftfy_available is_ipex_available
transformers.generation 4.30.2 4.40.2 tf_top_k_top_p_filtering top_k_top_p_filtering
transformers.generation 4.38.2 4.45.2 ForceTokensLogitsProcessor
transformers.generation 4.30.2 4.49.0 LogitsWarper MaxNewTokensCriteria
transformers.generation 4.30.2 4.57.6 BeamSearchScorer HammingDiversityLogitsProcessor
transformers.generation 4.30.2 5.0.0 BeamHypotheses BeamSampleDecoderOnlyOutput
transformers.generation 4.30.2 5.0.0 BeamSampleEncoderDecoderOutput BeamScorer
transformers.generation 4.30.2 5.0.0 BeamSearchDecoderOnlyOutput BeamSearchEncoderDecoderOutput
transformers.generation 4.30.2 5.0.0 ConstrainedBeamSearchScorer Constraint ConstraintListState
transformers.generation 4.30.2 5.0.0 ContrastiveSearchDecoderOnlyOutput
transformers.generation 4.30.2 5.0.0 ContrastiveSearchEncoderDecoderOutput DisjunctiveConstraint
transformers.generation 4.30.2 5.0.0 GreedySearchDecoderOnlyOutput
transformers.generation 4.30.2 5.0.0 GreedySearchEncoderDecoderOutput PhrasalConstraint
transformers.generation 4.30.2 5.0.0 SampleDecoderOnlyOutput SampleEncoderDecoderOutput
transformers.generation 4.30.2 5.0.0 is_flax_available is_tf_available
transformers.generation.configuration_utils 4.42.4 4.49.0 NEEDS_CACHE_CONFIG
transformers.generation.configuration_utils 4.42.4 4.54.1 QuantizedCacheConfig
transformers.generation.configuration_utils 4.45.2 4.54.1 MambaCache StaticCacheConfig
transformers.generation.configuration_utils 4.49.0 4.54.1 CACHE_CONFIG_MAPPING
transformers.generation.configuration_utils 4.45.2 4.56.2 HQQQuantizedCache HybridCache
transformers.generation.configuration_utils 4.45.2 4.56.2 NEED_SETUP_CACHE_CLASSES_MAPPING
transformers.generation.configuration_utils 4.45.2 4.56.2 OffloadedStaticCache
transformers.generation.configuration_utils 4.45.2 4.56.2 QUANT_BACKEND_CLASSES_MAPPING
transformers.generation.configuration_utils 4.45.2 4.56.2 QuantoQuantizedCache SlidingWindowCache
transformers.generation.configuration_utils 4.45.2 4.56.2 StaticCache
transformers.generation.configuration_utils 4.51.3 4.56.2 HybridChunkedCache
transformers.generation.configuration_utils 4.30.2 5.0.0 PretrainedConfig download_url
transformers.generation.configuration_utils 4.30.2 5.0.0 is_remote_url
transformers.generation.configuration_utils 4.30.2 5.18.0 extract_commit_hash=transformers.utils.hub
transformers.generation.configuration_utils 4.42.4 5.21.1 is_torch_available=transformers.utils.import_utils
transformers.generation.configuration_utils 4.46.3 5.21.1 SynthIDTextWatermarkLogitsProcessor
transformers.generation.logits_process 4.30.2 4.45.2 ForceTokensLogitsProcessor
transformers.generation.logits_process 4.30.2 4.49.0 LogitsWarper
transformers.generation.logits_process 4.30.2 5.0.0 HammingDiversityLogitsProcessor
transformers.generation.logits_process 4.45.2 5.1.0 isin_mps_friendly
transformers.generation.logits_process 4.30.2 5.15.1 _calc_banned_ngram_tokens
transformers.generation.stopping_criteria 4.30.2 4.45.2 MaxNewTokensCriteria
transformers.generation.stopping_criteria 4.44.2 4.45.2 is_torch_greater_or_equal_than_2_4
transformers.generation.stopping_criteria 4.45.2 5.1.0 isin_mps_friendly
transformers.generation.utils 4.30.2 4.40.2 top_k_top_p_filtering
transformers.generation.utils 4.38.2 4.40.2 ExplicitEnum=transformers.utils.generic
transformers.generation.utils 4.30.2 4.42.4 validate_stopping_criteria=transformers.generation.stopping_criteria
transformers.generation.utils 4.30.2 4.45.2 ForceTokensLogitsProcessor
transformers.generation.utils 4.30.2 4.45.2 MODEL_FOR_CAUSAL_IMAGE_MODELING_MAPPING
transformers.generation.utils 4.30.2 4.45.2 MODEL_FOR_CAUSAL_LM_MAPPING
transformers.generation.utils 4.30.2 4.45.2 MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
transformers.generation.utils 4.30.2 4.45.2 MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING
transformers.generation.utils 4.30.2 4.45.2 MODEL_FOR_VISION_2_SEQ_MAPPING
transformers.generation.utils 4.42.4 4.45.2 HQQQuantizedCache HybridCache QuantoQuantizedCache
transformers.generation.utils 4.42.4 4.45.2 SlidingWindowCache
transformers.generation.utils 4.44.2 4.45.2 MambaCache is_torch_greater_or_equal_than_2_4
transformers.generation.utils 4.42.4 4.46.3 WatermarkLogitsProcessor
transformers.generation.utils 4.42.4 4.47.1 is_quanto_available
transformers.generation.utils 4.40.2 4.50.3 is_torchdynamo_compiling=transformers.utils.import_utils
transformers.generation.utils 4.30.2 4.54.1 _crop_past_key_values
transformers.generation.utils 4.38.2 4.54.1 _split _split_model_inputs
transformers.generation.utils 4.42.4 4.54.1 QuantizedCacheConfig
transformers.generation.utils 4.30.2 4.56.2 CausalLMOutputWithPast=transformers.modeling_outputs
transformers.generation.utils 4.30.2 4.56.2 Seq2SeqLMOutput=transformers.modeling_outputs
transformers.generation.utils 4.30.2 4.56.2 _ranking_fast
transformers.generation.utils 4.38.2 4.56.2 NEED_SETUP_CACHE_CLASSES_MAPPING
transformers.generation.utils 4.42.4 4.56.2 QUANT_BACKEND_CLASSES_MAPPING
transformers.generation.utils 4.44.2 4.56.2 OffloadedCache _dola_select_contrast
transformers.generation.utils 4.44.2 4.56.2 _relative_top_filter
transformers.generation.utils 4.51.3 4.56.2 HybridChunkedCache
transformers.generation.utils 4.30.2 4.57.6 BeamScorer BeamSearchScorer
transformers.generation.utils 4.30.2 4.57.6 ConstrainedBeamSearchScorer DisjunctiveConstraint
transformers.generation.utils 4.30.2 4.57.6 HammingDiversityLogitsProcessor PhrasalConstraint
transformers.generation.utils 4.38.2 4.57.6 stack_model_outputs
transformers.generation.utils 4.45.2 4.57.6 PretrainedConfig
transformers.generation.utils 4.30.2 5.0.0 BeamSampleDecoderOnlyOutput
transformers.generation.utils 4.30.2 5.0.0 BeamSampleEncoderDecoderOutput BeamSampleOutput
transformers.generation.utils 4.30.2 5.0.0 BeamSearchDecoderOnlyOutput
transformers.generation.utils 4.30.2 5.0.0 BeamSearchEncoderDecoderOutput BeamSearchOutput
transformers.generation.utils 4.30.2 5.0.0 ContrastiveSearchDecoderOnlyOutput
transformers.generation.utils 4.30.2 5.0.0 ContrastiveSearchEncoderDecoderOutput
transformers.generation.utils 4.30.2 5.0.0 ContrastiveSearchOutput GreedySearchDecoderOnlyOutput
transformers.generation.utils 4.30.2 5.0.0 GreedySearchEncoderDecoderOutput GreedySearchOutput
transformers.generation.utils 4.30.2 5.0.0 SampleDecoderOnlyOutput SampleEncoderDecoderOutput
transformers.generation.utils 4.30.2 5.0.0 SampleOutput
transformers.generation.utils 4.42.4 5.1.0 is_hqq_available=transformers.utils.import_utils
transformers.generation.utils 4.45.2 5.1.0 isin_mps_friendly
transformers.generation.utils 4.46.3 5.1.0 is_optimum_quanto_available=transformers.utils.import_utils
transformers.generation.utils 4.51.3 5.3.0 is_torchdynamo_exporting=transformers.utils.import_utils
transformers.image_processing_utils 4.30.2 4.42.4 BaseBatchFeature IMAGE_PROCESSOR_NAME
transformers.image_processing_utils 4.30.2 4.42.4 PushToHubMixin=transformers.utils.hub
transformers.image_processing_utils 4.30.2 4.42.4 add_model_info_to_auto_map
transformers.image_processing_utils 4.30.2 4.42.4 cached_file=transformers.utils.hub
transformers.image_processing_utils 4.30.2 4.42.4 copy_func=transformers.utils.doc
transformers.image_processing_utils 4.30.2 4.42.4 custom_object_save=transformers.dynamic_module_utils
transformers.image_processing_utils 4.30.2 4.42.4 download_url is_offline_mode is_remote_url
transformers.image_processing_utils 4.52.4 5.4.0 requires=transformers.utils.import_utils
transformers.image_utils 4.38.2 4.42.4 promote_annotation_format
transformers.image_utils 4.42.4 4.52.4 VideoInput
transformers.image_utils 4.49.0 4.52.4 VIDEO_DECODERS VideoMetadata=transformers.video_utils
transformers.image_utils 4.49.0 4.52.4 default_sample_indices_fn=transformers.video_utils
transformers.image_utils 4.49.0 4.52.4 is_av_available=transformers.utils.import_utils
transformers.image_utils 4.49.0 4.52.4 is_cv2_available=transformers.utils.import_utils
transformers.image_utils 4.49.0 4.52.4 is_decord_available=transformers.utils.import_utils
transformers.image_utils 4.49.0 4.52.4 is_yt_dlp_available=transformers.utils.import_utils
transformers.image_utils 4.49.0 4.52.4 load_video=transformers.video_utils
transformers.image_utils 4.49.0 4.52.4 make_batched_videos=transformers.video_utils
transformers.image_utils 4.49.0 4.52.4 read_video_decord=transformers.video_utils
transformers.image_utils 4.49.0 4.52.4 read_video_opencv=transformers.video_utils read_video_pyav
transformers.image_utils 4.49.0 4.52.4 read_video_torchvision=transformers.video_utils
transformers.image_utils 4.30.2 5.0.0 is_jax_tensor is_tf_tensor
transformers.image_utils 4.38.2 5.1.0 AnnotionFormat
transformers.integrations 4.42.4 4.48.3 GGUF_TENSOR_MAPPING
transformers.integrations 4.50.3 4.52.4 SUPPORTED_TP_STYLES
transformers.integrations 4.30.2 5.0.0 is_sigopt_available run_hp_search_sigopt
transformers.integrations 4.38.2 5.0.0 fuse_awq_modules
transformers.integrations 4.38.2 5.0.0 get_keys_to_not_convert=transformers.quantizers.base
transformers.integrations 4.38.2 5.0.0 replace_8bit_linear set_module_8bit_tensor_to_device
transformers.integrations 4.38.2 5.0.0 set_module_quantized_tensor_to_device
transformers.integrations 4.46.3 5.1.0 post_init_awq_ipex_modules
transformers.integrations 4.50.3 5.15.1 is_torch_greater_or_equal=transformers.utils.import_utils
transformers.integrations 4.50.3 5.16.1 translate_to_torch_parallel_style
transformers.integrations 4.55.4 5.16.1 dequantize load_and_swizzle_mxfp4
transformers.integrations 4.42.4 5.18.0 GGUF_TOKENIZER_MAPPING load_dequant_gguf_tensor load_gguf
transformers.integrations.deepspeed 4.40.2 4.51.3 is_torch_mlu_available=transformers.utils.import_utils
transformers.masking_utils 4.53.3 5.0.0 PretrainedConfig _vmap_for_bhqkv
transformers.masking_utils 4.53.3 5.0.0 is_torchdynamo_compiling=transformers.utils.import_utils
transformers.masking_utils 4.53.3 5.0.0 sdpa_mask_older_torch sdpa_mask_recent_torch
transformers.masking_utils 4.56.2 5.0.0 _legacy_chunked_overlay
transformers.masking_utils 4.53.3 5.9.0 AttentionMask BLACK_SQUARE GREEN GREEN_SQUARE GREY_SQUARE
transformers.masking_utils 4.53.3 5.9.0 LOW_TRIANGLE RESET UPPER_TRIANGLE WHITE_SQUARE YELLOW
transformers.masking_utils 4.53.3 5.9.0 YELLOW_SQUARE get_style tensor_to_mask_visual
transformers.masking_utils 5.0.0 5.14.1 _can_skip_causal_mask_xpu
transformers.masking_utils 4.53.3 5.15.1 _is_torch_greater_or_equal_than_2_5
transformers.masking_utils 4.53.3 5.20.2 _is_torch_greater_or_equal_than_2_6
transformers.masking_utils 4.53.3 5.20.2 is_torch_greater_or_equal=transformers.utils.import_utils
transformers.modeling_flash_attention_utils 4.44.2 4.53.3 index_first_axis
transformers.modeling_flash_attention_utils 4.44.2 4.54.1 flash_attn_func flash_attn_varlen_func
transformers.modeling_flash_attention_utils 4.44.2 4.54.1 pad_input prepare_fa2_from_position_ids
transformers.modeling_flash_attention_utils 4.44.2 4.54.1 unpad_input
transformers.modeling_flash_attention_utils 4.47.1 4.54.1 deterministic_g flash_241
transformers.modeling_flash_attention_utils 4.51.3 4.54.1 apply_rotary_emb
transformers.modeling_flash_attention_utils 4.44.2 4.55.4 is_flash_attn_greater_or_equal=transformers.utils.import_utils
transformers.modeling_flash_attention_utils 4.51.3 5.4.0 is_flash_attn_greater_or_equal_2_10
transformers.modeling_flash_attention_utils 5.0.0 5.19.0 lazy_import_paged_flash_attention
transformers.modeling_gguf_pytorch_utils 4.42.4 4.45.2 load_dequant_gguf_tensor
transformers.modeling_gguf_pytorch_utils 4.44.2 4.47.1 reverse_permute_weights
transformers.modeling_gguf_pytorch_utils 4.42.4 4.48.3 GGUF_TENSOR_MAPPING
transformers.modeling_rope_utils 4.44.2 5.0.0 PretrainedConfig ROPE_VALIDATION_FUNCTIONS
transformers.modeling_rope_utils 4.44.2 5.0.0 _check_received_keys
transformers.modeling_rope_utils 4.44.2 5.0.0 _compute_default_rope_parameters
transformers.modeling_rope_utils 4.44.2 5.0.0 _validate_default_rope_parameters
transformers.modeling_rope_utils 4.44.2 5.0.0 _validate_dynamic_scaling_rope_parameters
transformers.modeling_rope_utils 4.44.2 5.0.0 _validate_linear_scaling_rope_parameters
transformers.modeling_rope_utils 4.44.2 5.0.0 _validate_llama3_parameters
transformers.modeling_rope_utils 4.44.2 5.0.0 _validate_longrope_parameters
transformers.modeling_rope_utils 4.44.2 5.0.0 _validate_yarn_parameters
transformers.modeling_utils 4.30.2 4.40.2 is_torch_tpu_available
transformers.modeling_utils 4.30.2 4.47.1 convert_file_size_to_int=transformers.utils.hub
transformers.modeling_utils 4.30.2 4.47.1 shard_checkpoint
transformers.modeling_utils 4.38.2 4.48.3 is_torch_greater_or_equal_than_1_13
transformers.modeling_utils 4.30.2 4.50.3 _load_state_dict_into_model _move_model_to_meta
transformers.modeling_utils 4.30.2 4.50.3 find_submodule_and_param_name
transformers.modeling_utils 4.30.2 4.51.3 dtype_byte_size
transformers.modeling_utils 4.44.2 4.51.3 check_support_param_buffer_assignment
transformers.modeling_utils 4.30.2 4.52.4 GenerationMixin get_first_parameter_dtype
transformers.modeling_utils 4.30.2 4.52.4 get_state_dict_float_dtype
transformers.modeling_utils 4.50.3 4.52.4 SUPPORTED_TP_STYLES
transformers.modeling_utils 4.51.3 4.52.4 is_deepspeed_available=transformers.integrations.deepspeed
transformers.modeling_utils 4.30.2 4.53.3 ModelOutput=transformers.utils.generic PoolerAnswerClass
transformers.modeling_utils 4.30.2 4.53.3 PoolerEndLogits PoolerStartLogits SQuADHead
transformers.modeling_utils 4.30.2 4.53.3 SequenceSummary SquadHeadOutput
transformers.modeling_utils 4.30.2 4.53.3 get_activation=transformers.activations
transformers.modeling_utils 4.30.2 4.53.3 replace_return_docstrings=transformers.utils.doc
transformers.modeling_utils 4.30.2 4.56.2 Conv1D apply_chunking_to_forward
transformers.modeling_utils 4.30.2 4.56.2 find_pruneable_heads_and_indices prune_conv1d_layer
transformers.modeling_utils 4.30.2 4.56.2 prune_layer
transformers.modeling_utils 4.30.2 4.56.2 prune_linear_layer=transformers.pytorch_utils
transformers.modeling_utils 4.38.2 4.56.2 AutoHfQuantizer=transformers.quantizers.auto
transformers.modeling_utils 4.38.2 4.56.2 is_torch_sdpa_available
transformers.modeling_utils 4.38.2 4.56.2 strtobool=transformers.utils.generic
transformers.modeling_utils 4.49.0 4.56.2 restore_default_torch_dtype
transformers.modeling_utils 4.50.3 4.56.2 _get_torch_dtype
transformers.modeling_utils 4.30.2 4.57.6 is_safetensors_available set_initialized_submodules
transformers.modeling_utils 4.51.3 4.57.6 is_torchao_available=transformers.utils.import_utils
transformers.modeling_utils 4.30.2 5.0.0 BitsAndBytesConfig=transformers.utils.quantization_config
transformers.modeling_utils 4.30.2 5.0.0 ENV_VARS_TRUE_VALUES FLAX_WEIGHTS_NAME PretrainedConfig
transformers.modeling_utils 4.30.2 5.0.0 _init_weights _load_state_dict_into_meta_model
transformers.modeling_utils 4.30.2 5.0.0 download_url find_tied_parameters
transformers.modeling_utils 4.30.2 5.0.0 get_disk_only_shard_files get_parameter_device
transformers.modeling_utils 4.30.2 5.0.0 get_parameter_dtype init_empty_weights
transformers.modeling_utils 4.30.2 5.0.0 is_optimum_available=transformers.utils.import_utils
transformers.modeling_utils 4.30.2 5.0.0 is_remote_url
transformers.modeling_utils 4.30.2 5.0.0 load_sharded_checkpoint=transformers.trainer_utils
transformers.modeling_utils 4.30.2 5.0.0 no_init_weights=transformers.initialization
transformers.modeling_utils 4.38.2 5.0.0 ADAPTER_WEIGHTS_NAME CONFIG_NAME TORCH_INIT_FUNCTIONS
transformers.modeling_utils 4.38.2 5.0.0 extract_commit_hash=transformers.utils.hub
transformers.modeling_utils 4.38.2 5.0.0 find_adapter_config_file=transformers.utils.peft_utils
transformers.modeling_utils 4.38.2 5.0.0 is_peft_available=transformers.utils.import_utils
transformers.modeling_utils 4.38.2 5.0.0 is_torch_fx_proxy=transformers.utils.import_utils
transformers.modeling_utils 4.38.2 5.0.0 is_torchdynamo_compiling=transformers.utils.import_utils
transformers.modeling_utils 4.40.2 5.0.0 is_torch_xla_available=transformers.utils.import_utils
transformers.modeling_utils 4.50.3 5.0.0 _find_mismatched_keys _find_missing_and_unexpected_keys
transformers.modeling_utils 4.50.3 5.0.0 _infer_parameter_dtype
transformers.modeling_utils 4.52.4 5.0.0 VLMS
transformers.modeling_utils 4.53.3 5.0.0 load_shard_file load_shard_files_with_threadpool
transformers.modeling_utils 4.56.2 5.0.0 load_and_register_kernel restore_default_dtype
transformers.modeling_utils 4.47.1 5.1.0 is_torch_greater_or_equal=transformers.utils.import_utils
transformers.modeling_utils 4.52.4 5.1.0 repack_weights replace_state_dict_local_with_dtensor
transformers.modeling_utils 4.53.3 5.1.0 _is_dtensor_available
transformers.modeling_utils 5.0.0 5.3.0 is_grouped_mm_available=transformers.utils.import_utils
transformers.modeling_utils 4.38.2 5.4.0 is_flash_attn_2_available=transformers.utils.import_utils
transformers.modeling_utils 4.49.0 5.4.0 PipelineParallel
transformers.modeling_utils 4.51.3 5.4.0 is_torch_mlu_available=transformers.utils.import_utils
transformers.modeling_utils 4.53.3 5.4.0 is_flash_attn_3_available=transformers.utils.import_utils
transformers.modeling_utils 4.50.3 5.15.1 _torch_distributed_available
transformers.modeling_utils 4.52.4 5.15.1 ALL_PARALLEL_STYLES initialize_tensor_parallelism
transformers.modeling_utils 4.54.1 5.15.1 distribute_model
transformers.modeling_utils 4.50.3 5.16.1 shard_and_distribute_module=transformers.integrations.tensor_parallel
transformers.modeling_utils 4.52.4 5.19.0 _get_parameter_tp_plan
transformers.modeling_utils 4.53.3 5.19.0 paged_attention_forward=transformers.integrations.flash_paged
transformers.modeling_utils 4.53.3 5.19.0 sdpa_attention_paged_forward=transformers.integrations.sdpa_paged
transformers.modeling_utils 5.0.0 5.19.0 lazy_import_paged_flash_attention
transformers.models.albert.modeling_albert 4.30.2 4.52.4 ALBERT_INPUTS_DOCSTRING
transformers.models.albert.modeling_albert 4.30.2 4.52.4 ALBERT_START_DOCSTRING
transformers.models.albert.modeling_albert 4.45.2 5.0.0 ALBERT_ATTENTION_CLASSES
transformers.models.albert.modeling_albert 4.45.2 5.0.0 AlbertSdpaAttention
transformers.models.align.modeling_align 4.30.2 4.52.4 ALIGN_INPUTS_DOCSTRING
transformers.models.align.modeling_align 4.30.2 4.52.4 ALIGN_START_DOCSTRING
transformers.models.align.modeling_align 4.30.2 4.52.4 ALIGN_TEXT_INPUTS_DOCSTRING
transformers.models.align.modeling_align 4.30.2 4.52.4 ALIGN_VISION_INPUTS_DOCSTRING
transformers.models.align.modeling_align 4.42.4 4.54.1 ALIGN_TEXT_SELF_ATTENTION_CLASSES
transformers.models.altclip.modeling_altclip 4.30.2 4.52.4 ALTCLIP_INPUTS_DOCSTRING
transformers.models.altclip.modeling_altclip 4.30.2 4.52.4 ALTCLIP_START_DOCSTRING
transformers.models.altclip.modeling_altclip 4.30.2 4.52.4 ALTCLIP_TEXT_INPUTS_DOCSTRING
transformers.models.altclip.modeling_altclip 4.30.2 4.52.4 ALTCLIP_VISION_INPUTS_DOCSTRING
transformers.models.altclip.modeling_altclip 4.42.4 5.6.2 ALT_ROBERTA_SELF_ATTENTION_CLASSES
transformers.models.aria.modeling_aria 4.48.3 4.52.4 ARIA_INPUTS_DOCSTRING ARIA_START_DOCSTRING
transformers.models.aria.modeling_aria 4.48.3 4.52.4 ARIA_TEXT_INPUTS_DOCSTRING
transformers.models.aria.modeling_aria 4.48.3 4.52.4 ARIA_TEXT_START_DOCSTRING
transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer 4.42.4 4.50.3 ASTSdpaAttention
transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer 4.42.4 4.50.3 ASTSdpaSelfAttention
transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer 4.42.4 4.50.3 AST_ATTENTION_CLASSES
transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer 4.30.2 4.52.4 AUDIO_SPECTROGRAM_TRANSFORMER_INPUTS_DOCSTRING
transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer 4.30.2 4.52.4 AUDIO_SPECTROGRAM_TRANSFORMER_START_DOCSTRING
transformers.models.auto 4.30.2 4.52.4 OptionalDependencyNotAvailable=transformers.utils.import_utils
transformers.models.auto 4.30.2 4.52.4 is_flax_available is_tf_available
transformers.models.auto 4.30.2 5.0.0 AutoModelForVision2Seq AutoModelWithLMHead
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_CAUSAL_LM_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_MASKED_LM_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_MULTIPLE_CHOICE_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_PRETRAINING_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_QUESTION_ANSWERING_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING
transformers.models.auto 4.30.2 5.0.0 FLAX_MODEL_FOR_VISION_2_SEQ_MAPPING FLAX_MODEL_MAPPING
transformers.models.auto 4.30.2 5.0.0 MODEL_FOR_VISION_2_SEQ_MAPPING MODEL_WITH_LM_HEAD_MAPPING
transformers.models.auto 4.38.2 5.0.0 FLAX_MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING
transformers.models.auto 4.30.2 5.6.2 MODEL_NAMES_MAPPING
transformers.models.auto 4.30.2 5.21.1 is_torch_available=transformers.utils.import_utils
transformers.models.auto.auto_factory 4.30.2 5.0.0 PretrainedConfig
transformers.models.auto.auto_factory 4.38.2 5.18.0 cached_file=transformers.utils.hub
transformers.models.auto.auto_factory 4.38.2 5.18.0 extract_commit_hash=transformers.utils.hub
transformers.models.auto.auto_factory 4.45.2 5.21.1 GenerationMixin
transformers.models.auto.auto_factory 4.45.2 5.21.1 is_torch_available=transformers.utils.import_utils
transformers.models.auto.configuration_auto 4.30.2 4.42.4 CONFIG_ARCHIVE_MAP_MAPPING_NAMES
transformers.models.auto.configuration_auto 4.30.2 5.0.0 PretrainedConfig
transformers.models.auto.configuration_auto 4.30.2 5.6.2 MODEL_NAMES_MAPPING
transformers.models.auto.modeling_auto 4.30.2 5.0.0 AutoModelForVision2Seq AutoModelWithLMHead
transformers.models.auto.modeling_auto 4.30.2 5.0.0 MODEL_FOR_VISION_2_SEQ_MAPPING
transformers.models.auto.modeling_auto 4.30.2 5.0.0 MODEL_FOR_VISION_2_SEQ_MAPPING_NAMES
transformers.models.auto.modeling_auto 4.30.2 5.0.0 MODEL_WITH_LM_HEAD_MAPPING
transformers.models.auto.modeling_auto 4.30.2 5.0.0 MODEL_WITH_LM_HEAD_MAPPING_NAMES
transformers.models.auto.modeling_auto 4.30.2 5.0.0 _AutoModelWithLMHead
transformers.models.auto.modeling_auto 4.54.1 5.0.0 _AutoModelForVision2Seq
transformers.models.autoformer.modeling_autoformer 4.30.2 4.52.4 AUTOFORMER_INPUTS_DOCSTRING
transformers.models.autoformer.modeling_autoformer 4.30.2 4.52.4 AUTOFORMER_START_DOCSTRING
transformers.models.aya_vision.modeling_aya_vision 4.50.3 4.52.4 AYA_VISION_INPUTS_DOCSTRING
transformers.models.aya_vision.modeling_aya_vision 4.50.3 4.52.4 AYA_VISION_START_DOCSTRING
transformers.models.bamba.modeling_bamba 4.48.3 4.52.4 BAMBA_INPUTS_DOCSTRING
transformers.models.bamba.modeling_bamba 4.48.3 4.52.4 BAMBA_START_DOCSTRING
transformers.models.bamba.modeling_bamba 4.52.4 5.15.1 BambaFlashAttentionKwargs
transformers.models.bark.configuration_bark 4.38.2 5.4.0 BARK_SUBMODELCONFIG_START_DOCSTRING
transformers.models.bark.modeling_bark 4.38.2 4.52.4 BARK_CAUSAL_MODEL_INPUTS_DOCSTRING
transformers.models.bark.modeling_bark 4.38.2 4.52.4 BARK_FINE_INPUTS_DOCSTRING
transformers.models.bark.modeling_bark 4.38.2 4.52.4 BARK_MODEL_START_DOCSTRING
transformers.models.bark.modeling_bark 4.38.2 4.52.4 BARK_START_DOCSTRING
transformers.models.bart.modeling_bart 4.30.2 4.52.4 BART_INPUTS_DOCSTRING BART_START_DOCSTRING
transformers.models.bart.modeling_bart 4.38.2 4.53.3 BART_ATTENTION_CLASSES BartFlashAttention2
transformers.models.bart.modeling_bart 4.38.2 4.53.3 BartSdpaAttention
transformers.models.beit.modeling_beit 4.30.2 4.52.4 BEIT_INPUTS_DOCSTRING BEIT_START_DOCSTRING
transformers.models.beit.modeling_beit 4.48.3 5.9.0 BEIT_SELF_ATTENTION_CLASSES
transformers.models.beit.modeling_beit 4.48.3 5.9.0 BeitSdpaSelfAttention
transformers.models.bert.modeling_bert 4.30.2 4.52.4 BERT_INPUTS_DOCSTRING BERT_START_DOCSTRING
transformers.models.bert.modeling_bert 4.42.4 5.0.0 BERT_SELF_ATTENTION_CLASSES
transformers.models.bert.modeling_bert 4.42.4 5.0.0 BertSdpaSelfAttention
transformers.models.bert_generation.modeling_bert_generation 4.30.2 4.52.4 BERT_GENERATION_INPUTS_DOCSTRING
transformers.models.bert_generation.modeling_bert_generation 4.30.2 4.52.4 BERT_GENERATION_START_DOCSTRING
transformers.models.bert_generation.modeling_bert_generation 4.42.4 5.0.0 BERT_GENERATION_SELF_ATTENTION_CLASSES
transformers.models.big_bird.modeling_big_bird 4.30.2 4.52.4 BIG_BIRD_INPUTS_DOCSTRING
transformers.models.big_bird.modeling_big_bird 4.30.2 4.52.4 BIG_BIRD_START_DOCSTRING
transformers.models.bigbird_pegasus.modeling_bigbird_pegasus 4.30.2 4.52.4 BIGBIRD_PEGASUS_INPUTS_DOCSTRING
transformers.models.bigbird_pegasus.modeling_bigbird_pegasus 4.30.2 4.52.4 BIGBIRD_PEGASUS_STANDALONE_INPUTS_DOCSTRING
transformers.models.bigbird_pegasus.modeling_bigbird_pegasus 4.30.2 4.52.4 BIGBIRD_PEGASUS_START_DOCSTRING
transformers.models.biogpt.modeling_biogpt 4.30.2 4.52.4 BIOGPT_INPUTS_DOCSTRING
transformers.models.biogpt.modeling_biogpt 4.30.2 4.52.4 BIOGPT_START_DOCSTRING
transformers.models.biogpt.modeling_biogpt 4.45.2 4.53.3 BIOGPT_ATTENTION_CLASSES
transformers.models.biogpt.modeling_biogpt 4.45.2 4.53.3 BioGptSdpaAttention
transformers.models.bit.modeling_bit 4.30.2 4.52.4 BIT_INPUTS_DOCSTRING BIT_START_DOCSTRING
transformers.models.blenderbot.modeling_blenderbot 4.30.2 4.52.4 BLENDERBOT_INPUTS_DOCSTRING
transformers.models.blenderbot.modeling_blenderbot 4.30.2 4.52.4 BLENDERBOT_START_DOCSTRING
transformers.models.blenderbot.modeling_blenderbot 4.38.2 4.53.3 BLENDERBOT_ATTENTION_CLASSES
transformers.models.blenderbot_small.modeling_blenderbot_small 4.30.2 4.52.4 BLENDERBOT_SMALL_INPUTS_DOCSTRING
transformers.models.blenderbot_small.modeling_blenderbot_small 4.30.2 4.52.4 BLENDERBOT_SMALL_START_DOCSTRING
transformers.models.blenderbot_small.modeling_blenderbot_small 4.38.2 4.53.3 BLENDERBOT_SMALL_ATTENTION_CLASSES
transformers.models.blip.modeling_blip 4.30.2 4.52.4 BLIP_INPUTS_DOCSTRING BLIP_START_DOCSTRING
transformers.models.blip.modeling_blip 4.30.2 4.52.4 BLIP_TEXT_INPUTS_DOCSTRING
transformers.models.blip.modeling_blip 4.30.2 4.52.4 BLIP_VISION_INPUTS_DOCSTRING
transformers.models.blip_2.modeling_blip_2 4.30.2 4.52.4 BLIP_2_INPUTS_DOCSTRING
transformers.models.blip_2.modeling_blip_2 4.30.2 4.52.4 BLIP_2_START_DOCSTRING
transformers.models.blip_2.modeling_blip_2 4.30.2 4.52.4 BLIP_2_TEXT_INPUTS_DOCSTRING
transformers.models.blip_2.modeling_blip_2 4.30.2 4.52.4 BLIP_2_VISION_INPUTS_DOCSTRING
transformers.models.blip_2.modeling_blip_2 4.45.2 4.52.4 BLIP2_IMAGE_TEXT_RETRIEVAL_INPUTS_DOCSTRING
transformers.models.blip_2.modeling_blip_2 4.45.2 4.52.4 BLIP_2_TEXT_WITH_PROJECTION_INPUTS_DOCSTRING
transformers.models.bloom.modeling_bloom 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.bloom.modeling_bloom 4.30.2 4.52.4 BLOOM_INPUTS_DOCSTRING
transformers.models.bloom.modeling_bloom 4.30.2 4.52.4 BLOOM_START_DOCSTRING
transformers.models.bridgetower.modeling_bridgetower 4.30.2 4.52.4 BRIDGETOWER_INPUTS_DOCSTRING
transformers.models.bridgetower.modeling_bridgetower 4.30.2 4.52.4 BRIDGETOWER_START_DOCSTRING
transformers.models.bridgetower.modeling_bridgetower 4.42.4 5.0.0 BRIDGE_TOWER_SELF_ATTENTION_CLASSES
transformers.models.bros.modeling_bros 4.38.2 4.52.4 BROS_INPUTS_DOCSTRING BROS_START_DOCSTRING
transformers.models.camembert.modeling_camembert 4.30.2 4.52.4 CAMEMBERT_INPUTS_DOCSTRING
transformers.models.camembert.modeling_camembert 4.30.2 4.52.4 CAMEMBERT_START_DOCSTRING
transformers.models.camembert.modeling_camembert 4.42.4 5.0.0 CAMEMBERT_SELF_ATTENTION_CLASSES
transformers.models.camembert.modeling_camembert 4.45.2 5.0.0 CamembertSdpaSelfAttention
transformers.models.canine.modeling_canine 4.30.2 4.52.4 CANINE_INPUTS_DOCSTRING
transformers.models.canine.modeling_canine 4.30.2 4.52.4 CANINE_START_DOCSTRING
transformers.models.chameleon.modeling_chameleon 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.chameleon.modeling_chameleon 4.44.2 4.52.4 CHAMELEON_ATTENTION_CLASSES
transformers.models.chameleon.modeling_chameleon 4.44.2 4.52.4 CHAMELEON_INPUTS_DOCSTRING
transformers.models.chameleon.modeling_chameleon 4.44.2 4.52.4 CHAMELEON_START_DOCSTRING
transformers.models.chameleon.modeling_chameleon 4.44.2 4.52.4 CHAMELEON_VQ_START_DOCSTRING
transformers.models.chameleon.modeling_chameleon 4.44.2 4.52.4 ChameleonFlashAttention2
transformers.models.chameleon.modeling_chameleon 4.44.2 4.52.4 ChameleonSdpaAttention
transformers.models.chinese_clip.modeling_chinese_clip 4.30.2 4.52.4 CHINESE_CLIP_INPUTS_DOCSTRING
transformers.models.chinese_clip.modeling_chinese_clip 4.30.2 4.52.4 CHINESE_CLIP_START_DOCSTRING
transformers.models.chinese_clip.modeling_chinese_clip 4.30.2 4.52.4 CHINESE_CLIP_TEXT_INPUTS_DOCSTRING
transformers.models.chinese_clip.modeling_chinese_clip 4.30.2 4.52.4 CHINESE_CLIP_VISION_INPUTS_DOCSTRING
transformers.models.chinese_clip.modeling_chinese_clip 4.42.4 4.54.1 CHINESE_CLIP_TEXT_SELF_ATTENTION_CLASSES
transformers.models.clap.modeling_clap 4.30.2 4.52.4 CLAP_AUDIO_INPUTS_DOCSTRING
transformers.models.clap.modeling_clap 4.30.2 4.52.4 CLAP_INPUTS_DOCSTRING CLAP_START_DOCSTRING
transformers.models.clap.modeling_clap 4.30.2 4.52.4 CLAP_TEXT_INPUTS_DOCSTRING
transformers.models.clap.modeling_clap 4.42.4 4.54.1 CLAP_TEXT_SELF_ATTENTION_CLASSES
transformers.models.clip.modeling_clip 4.30.2 4.52.4 CLIP_INPUTS_DOCSTRING CLIP_START_DOCSTRING
transformers.models.clip.modeling_clip 4.30.2 4.52.4 CLIP_TEXT_INPUTS_DOCSTRING
transformers.models.clip.modeling_clip 4.30.2 4.52.4 CLIP_VISION_INPUTS_DOCSTRING
transformers.models.clip.modeling_clip 4.44.2 4.52.4 CLIPFlashAttention2 CLIPSdpaAttention
transformers.models.clip.modeling_clip 4.44.2 4.52.4 CLIP_ATTENTION_CLASSES
transformers.models.clipseg.modeling_clipseg 4.30.2 4.52.4 CLIPSEG_INPUTS_DOCSTRING
transformers.models.clipseg.modeling_clipseg 4.30.2 4.52.4 CLIPSEG_START_DOCSTRING
transformers.models.clipseg.modeling_clipseg 4.30.2 4.52.4 CLIPSEG_TEXT_INPUTS_DOCSTRING
transformers.models.clipseg.modeling_clipseg 4.30.2 4.52.4 CLIPSEG_VISION_INPUTS_DOCSTRING
transformers.models.clvp.modeling_clvp 4.38.2 4.52.4 CLVP_DECODER_INPUTS_DOCSTRING
transformers.models.clvp.modeling_clvp 4.38.2 4.52.4 CLVP_INPUTS_DOCSTRING CLVP_START_DOCSTRING
transformers.models.codegen.modeling_codegen 4.30.2 4.52.4 CODEGEN_INPUTS_DOCSTRING
transformers.models.codegen.modeling_codegen 4.30.2 4.52.4 CODEGEN_START_DOCSTRING
transformers.models.cohere.modeling_cohere 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.cohere.modeling_cohere 4.40.2 4.48.3 COHERE_ATTENTION_CLASSES
transformers.models.cohere.modeling_cohere 4.40.2 4.48.3 CohereFlashAttention2 CohereSdpaAttention
transformers.models.cohere.modeling_cohere 4.40.2 4.52.4 COHERE_INPUTS_DOCSTRING
transformers.models.cohere.modeling_cohere 4.40.2 4.52.4 COHERE_START_DOCSTRING
transformers.models.cohere2.modeling_cohere2 4.48.3 4.52.4 COHERE2_INPUTS_DOCSTRING
transformers.models.cohere2.modeling_cohere2 4.48.3 4.52.4 COHERE2_START_DOCSTRING
transformers.models.colpali.modeling_colpali 4.48.3 4.52.4 COLPALI_START_DOCSTRING
transformers.models.conditional_detr.modeling_conditional_detr 4.30.2 4.52.4 CONDITIONAL_DETR_INPUTS_DOCSTRING
transformers.models.conditional_detr.modeling_conditional_detr 4.30.2 4.52.4 CONDITIONAL_DETR_START_DOCSTRING
transformers.models.conditional_detr.modeling_conditional_detr 4.30.2 5.1.0 _expand
transformers.models.convbert.modeling_convbert 4.30.2 4.52.4 CONVBERT_INPUTS_DOCSTRING
transformers.models.convbert.modeling_convbert 4.30.2 4.52.4 CONVBERT_START_DOCSTRING
transformers.models.convnext.modeling_convnext 4.30.2 4.52.4 CONVNEXT_INPUTS_DOCSTRING
transformers.models.convnext.modeling_convnext 4.30.2 4.52.4 CONVNEXT_START_DOCSTRING
transformers.models.convnextv2.modeling_convnextv2 4.30.2 4.52.4 CONVNEXTV2_INPUTS_DOCSTRING
transformers.models.convnextv2.modeling_convnextv2 4.30.2 4.52.4 CONVNEXTV2_START_DOCSTRING
transformers.models.cpmant.modeling_cpmant 4.30.2 4.52.4 CPMANT_INPUTS_DOCSTRING
transformers.models.cpmant.modeling_cpmant 4.30.2 4.52.4 CPMANT_START_DOCSTRING
transformers.models.ctrl.modeling_ctrl 4.30.2 4.52.4 CTRL_INPUTS_DOCSTRING CTRL_START_DOCSTRING
transformers.models.cvt.modeling_cvt 4.30.2 4.52.4 CVT_INPUTS_DOCSTRING CVT_START_DOCSTRING
transformers.models.dab_detr.modeling_dab_detr 4.49.0 4.52.4 DAB_DETR_INPUTS_DOCSTRING
transformers.models.dab_detr.modeling_dab_detr 4.49.0 4.52.4 DAB_DETR_START_DOCSTRING
transformers.models.dac.modeling_dac 4.45.2 4.52.4 DAC_INPUTS_DOCSTRING DAC_START_DOCSTRING
transformers.models.data2vec.modeling_data2vec_audio 4.42.4 4.51.3 DATA2VEC2AUDIO_ATTENTION_CLASSES
transformers.models.data2vec.modeling_data2vec_audio 4.30.2 4.52.4 DATA2VEC_AUDIO_INPUTS_DOCSTRING
transformers.models.data2vec.modeling_data2vec_audio 4.30.2 4.52.4 DATA2VEC_AUDIO_START_DOCSTRING
transformers.models.data2vec.modeling_data2vec_audio 4.42.4 4.53.3 Data2VecAudioFlashAttention2
transformers.models.data2vec.modeling_data2vec_audio 4.42.4 4.53.3 Data2VecAudioSdpaAttention
transformers.models.data2vec.modeling_data2vec_audio 4.51.3 4.53.3 DATA2VEC_AUDIO_ATTENTION_CLASSES
transformers.models.data2vec.modeling_data2vec_text 4.30.2 4.52.4 DATA2VECTEXT_INPUTS_DOCSTRING
transformers.models.data2vec.modeling_data2vec_text 4.30.2 4.52.4 DATA2VECTEXT_START_DOCSTRING
transformers.models.data2vec.modeling_data2vec_text 4.42.4 5.0.0 DATA2VEC_TEXT_SELF_ATTENTION_CLASSES
transformers.models.data2vec.modeling_data2vec_vision 4.30.2 4.52.4 DATA2VEC_VISION_INPUTS_DOCSTRING
transformers.models.data2vec.modeling_data2vec_vision 4.30.2 4.52.4 DATA2VEC_VISION_START_DOCSTRING
transformers.models.dbrx.modeling_dbrx 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.dbrx.modeling_dbrx 4.40.2 4.52.4 DBRX_INPUTS_DOCSTRING DBRX_START_DOCSTRING
transformers.models.dbrx.modeling_dbrx 4.40.2 5.0.0 DBRX_ATTENTION_CLASSES DbrxFlashAttention2
transformers.models.dbrx.modeling_dbrx 4.40.2 5.0.0 DbrxSdpaAttention
transformers.models.deberta.modeling_deberta 4.30.2 4.52.4 DEBERTA_INPUTS_DOCSTRING
transformers.models.deberta.modeling_deberta 4.30.2 4.52.4 DEBERTA_START_DOCSTRING
transformers.models.deberta_v2.modeling_deberta_v2 4.30.2 4.52.4 DEBERTA_INPUTS_DOCSTRING
transformers.models.deberta_v2.modeling_deberta_v2 4.30.2 4.52.4 DEBERTA_START_DOCSTRING
transformers.models.decision_transformer.modeling_decision_transformer 4.30.2 4.52.4 DECISION_TRANSFORMER_INPUTS_DOCSTRING
transformers.models.decision_transformer.modeling_decision_transformer 4.30.2 4.52.4 DECISION_TRANSFORMER_START_DOCSTRING
transformers.models.deepseek_v3.modeling_deepseek_v3 4.51.3 4.52.4 DEEPSEEK_V3_INPUTS_DOCSTRING
transformers.models.deepseek_v3.modeling_deepseek_v3 4.51.3 4.52.4 DEEPSEEK_V3_START_DOCSTRING
transformers.models.deformable_detr.modeling_deformable_detr 4.30.2 4.52.4 DEFORMABLE_DETR_INPUTS_DOCSTRING
transformers.models.deformable_detr.modeling_deformable_detr 4.30.2 4.52.4 DEFORMABLE_DETR_START_DOCSTRING
transformers.models.deit.modeling_deit 4.42.4 4.50.3 DEIT_ATTENTION_CLASSES DeiTSdpaAttention
transformers.models.deit.modeling_deit 4.42.4 4.50.3 DeiTSdpaSelfAttention
transformers.models.deit.modeling_deit 4.30.2 4.52.4 DEIT_INPUTS_DOCSTRING DEIT_START_DOCSTRING
transformers.models.depth_anything.modeling_depth_anything 4.38.2 4.52.4 DEPTH_ANYTHING_INPUTS_DOCSTRING
transformers.models.depth_anything.modeling_depth_anything 4.38.2 4.52.4 DEPTH_ANYTHING_START_DOCSTRING
transformers.models.depth_pro.modeling_depth_pro 4.49.0 4.52.4 DEPTH_PRO_FOR_DEPTH_ESTIMATION_START_DOCSTRING
transformers.models.depth_pro.modeling_depth_pro 4.49.0 4.52.4 DEPTH_PRO_INPUTS_DOCSTRING
transformers.models.depth_pro.modeling_depth_pro 4.49.0 4.52.4 DEPTH_PRO_START_DOCSTRING
transformers.models.detr.modeling_detr 4.30.2 4.52.4 DETR_INPUTS_DOCSTRING DETR_START_DOCSTRING
transformers.models.detr.modeling_detr 4.30.2 5.1.0 _expand
transformers.models.diffllama.modeling_diffllama 4.48.3 4.52.4 DIFFLLAMA_INPUTS_DOCSTRING
transformers.models.diffllama.modeling_diffllama 4.48.3 4.52.4 DIFFLLAMA_START_DOCSTRING
transformers.models.diffllama.modeling_diffllama 4.48.3 5.13.1 DIFFLLAMA_ATTENTION_CLASSES
transformers.models.diffllama.modeling_diffllama 4.48.3 5.13.1 DiffLlamaFlashAttention2
transformers.models.diffllama.modeling_diffllama 4.48.3 5.13.1 DiffLlamaSdpaAttention
transformers.models.dinat.modeling_dinat 4.30.2 4.52.4 DINAT_INPUTS_DOCSTRING
transformers.models.dinat.modeling_dinat 4.30.2 4.52.4 DINAT_START_DOCSTRING
transformers.models.dinov2.modeling_dinov2 4.38.2 4.52.4 DINOV2_BASE_INPUTS_DOCSTRING
transformers.models.dinov2.modeling_dinov2 4.38.2 4.52.4 DINOV2_INPUTS_DOCSTRING
transformers.models.dinov2.modeling_dinov2 4.38.2 4.52.4 DINOV2_START_DOCSTRING
transformers.models.dinov2_with_registers.modeling_dinov2_with_registers 4.48.3 4.52.4 DINOV2_WITH_REGISTERS_BASE_INPUTS_DOCSTRING
transformers.models.dinov2_with_registers.modeling_dinov2_with_registers 4.48.3 4.52.4 DINOV2_WITH_REGISTERS_INPUTS_DOCSTRING
transformers.models.dinov2_with_registers.modeling_dinov2_with_registers 4.48.3 4.52.4 DINOV2_WITH_REGISTERS_START_DOCSTRING
transformers.models.distilbert.modeling_distilbert 4.30.2 4.52.4 DISTILBERT_INPUTS_DOCSTRING
transformers.models.distilbert.modeling_distilbert 4.30.2 4.52.4 DISTILBERT_START_DOCSTRING
transformers.models.distilbert.modeling_distilbert 4.38.2 5.0.0 DISTILBERT_ATTENTION_CLASSES
transformers.models.distilbert.modeling_distilbert 4.38.2 5.0.0 DistilBertFlashAttention2
transformers.models.distilbert.modeling_distilbert 4.46.3 5.0.0 DistilBertSdpaAttention
transformers.models.donut.modeling_donut_swin 4.30.2 4.52.4 SWIN_INPUTS_DOCSTRING
transformers.models.donut.modeling_donut_swin 4.30.2 4.52.4 SWIN_START_DOCSTRING
transformers.models.dpr.modeling_dpr 4.30.2 4.52.4 DPR_ENCODERS_INPUTS_DOCSTRING
transformers.models.dpr.modeling_dpr 4.30.2 4.52.4 DPR_READER_INPUTS_DOCSTRING DPR_START_DOCSTRING
transformers.models.dpt.modeling_dpt 4.30.2 4.52.4 DPT_INPUTS_DOCSTRING DPT_START_DOCSTRING
transformers.models.efficientnet.modeling_efficientnet 4.30.2 4.52.4 EFFICIENTNET_INPUTS_DOCSTRING
transformers.models.efficientnet.modeling_efficientnet 4.30.2 4.52.4 EFFICIENTNET_START_DOCSTRING
transformers.models.electra.modeling_electra 4.30.2 4.52.4 ELECTRA_INPUTS_DOCSTRING
transformers.models.electra.modeling_electra 4.30.2 4.52.4 ELECTRA_START_DOCSTRING
transformers.models.electra.modeling_electra 4.42.4 5.0.0 ELECTRA_SELF_ATTENTION_CLASSES
transformers.models.emu3.modeling_emu3 4.48.3 4.52.4 EMU3_INPUTS_DOCSTRING EMU3_START_DOCSTRING
transformers.models.emu3.modeling_emu3 4.48.3 4.52.4 EMU3_TEXT_INPUTS_DOCSTRING
transformers.models.emu3.modeling_emu3 4.48.3 4.52.4 EMU3_VQ_START_DOCSTRING
transformers.models.encodec.modeling_encodec 4.38.2 4.52.4 ENCODEC_INPUTS_DOCSTRING
transformers.models.encodec.modeling_encodec 4.38.2 4.52.4 ENCODEC_START_DOCSTRING
transformers.models.encoder_decoder.modeling_encoder_decoder 4.30.2 4.52.4 ENCODER_DECODER_INPUTS_DOCSTRING
transformers.models.encoder_decoder.modeling_encoder_decoder 4.30.2 4.52.4 ENCODER_DECODER_START_DOCSTRING
transformers.models.ernie.modeling_ernie 4.30.2 4.52.4 ERNIE_INPUTS_DOCSTRING
transformers.models.ernie.modeling_ernie 4.30.2 4.52.4 ERNIE_START_DOCSTRING
transformers.models.ernie.modeling_ernie 4.42.4 5.0.0 ERNIE_SELF_ATTENTION_CLASSES
transformers.models.esm.modeling_esm 4.30.2 4.52.4 ESM_INPUTS_DOCSTRING ESM_START_DOCSTRING
transformers.models.esm.modeling_esmfold 4.30.2 4.52.4 ESMFOLD_INPUTS_DOCSTRING
transformers.models.evolla.modeling_evolla 4.54.1 5.6.2 apply_rotary_pos_emb_esm rotate_half_esm
transformers.models.falcon.modeling_falcon 4.38.2 4.52.4 FALCON_INPUTS_DOCSTRING
transformers.models.falcon.modeling_falcon 4.38.2 4.52.4 FALCON_START_DOCSTRING
transformers.models.falcon_mamba.modeling_falcon_mamba 4.45.2 4.52.4 FALCONMAMBA_INPUTS_DOCSTRING
transformers.models.falcon_mamba.modeling_falcon_mamba 4.45.2 4.52.4 FALCONMAMBA_START_DOCSTRING
transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer 4.38.2 4.52.4 FASTSPEECH2_CONFORMER_START_DOCSTRING
transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer 4.38.2 4.52.4 FASTSPEECH2_CONFORMER_WITH_HIFIGAN_START_DOCSTRING
transformers.models.fastspeech2_conformer.modeling_fastspeech2_conformer 4.38.2 4.52.4 HIFIGAN_START_DOCSTRING
transformers.models.flaubert.modeling_flaubert 4.30.2 4.52.4 FLAUBERT_INPUTS_DOCSTRING
transformers.models.flaubert.modeling_flaubert 4.30.2 4.52.4 FLAUBERT_START_DOCSTRING
transformers.models.flava.modeling_flava 4.30.2 4.52.4 FLAVA_IMAGE_INPUTS_DOCSTRING
transformers.models.flava.modeling_flava 4.30.2 4.52.4 FLAVA_MODEL_INPUTS_DOCSTRING
transformers.models.flava.modeling_flava 4.30.2 4.52.4 FLAVA_MULTIMODAL_INPUTS_DOCSTRING
transformers.models.flava.modeling_flava 4.30.2 4.52.4 FLAVA_PRETRAINING_INPUTS_DOCSTRING
transformers.models.flava.modeling_flava 4.30.2 4.52.4 FLAVA_START_DOCSTRING
transformers.models.flava.modeling_flava 4.30.2 4.52.4 FLAVA_TEXT_INPUTS_DOCSTRING
transformers.models.fnet.modeling_fnet 4.30.2 4.52.4 FNET_INPUTS_DOCSTRING FNET_START_DOCSTRING
transformers.models.focalnet.modeling_focalnet 4.30.2 4.52.4 FOCALNET_INPUTS_DOCSTRING
transformers.models.focalnet.modeling_focalnet 4.30.2 4.52.4 FOCALNET_START_DOCSTRING
transformers.models.fsmt.modeling_fsmt 4.30.2 4.52.4 FSMT_INPUTS_DOCSTRING FSMT_START_DOCSTRING
transformers.models.funnel.modeling_funnel 4.30.2 4.52.4 FUNNEL_INPUTS_DOCSTRING
transformers.models.funnel.modeling_funnel 4.30.2 4.52.4 FUNNEL_START_DOCSTRING
transformers.models.fuyu.modeling_fuyu 4.38.2 4.52.4 FUYU_INPUTS_DOCSTRING FUYU_START_DOCSTRING
transformers.models.gemma.modeling_gemma 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.gemma.modeling_gemma 4.38.2 4.48.3 GEMMA_ATTENTION_CLASSES
transformers.models.gemma.modeling_gemma 4.38.2 4.48.3 GemmaFlashAttention2 GemmaSdpaAttention
transformers.models.gemma.modeling_gemma 4.38.2 4.52.4 GEMMA_INPUTS_DOCSTRING
transformers.models.gemma.modeling_gemma 4.38.2 4.52.4 GEMMA_START_DOCSTRING
transformers.models.gemma2.modeling_gemma2 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.gemma2.modeling_gemma2 4.42.4 4.47.1 GEMMA2_ATTENTION_CLASSES
transformers.models.gemma2.modeling_gemma2 4.42.4 4.48.3 Gemma2FlashAttention2 Gemma2SdpaAttention
transformers.models.gemma2.modeling_gemma2 4.42.4 4.52.4 GEMMA2_INPUTS_DOCSTRING
transformers.models.gemma2.modeling_gemma2 4.42.4 4.52.4 GEMMA2_START_DOCSTRING
transformers.models.gemma3.modeling_gemma3 4.50.3 4.52.4 GEMMA3_INPUTS_DOCSTRING
transformers.models.gemma3.modeling_gemma3 4.50.3 4.52.4 GEMMA3_START_DOCSTRING
transformers.models.git.modeling_git 4.30.2 4.52.4 GIT_INPUTS_DOCSTRING GIT_START_DOCSTRING
transformers.models.git.modeling_git 4.30.2 4.52.4 GIT_VISION_INPUTS_DOCSTRING
transformers.models.glm.modeling_glm 4.46.3 4.52.4 GLM_INPUTS_DOCSTRING GLM_START_DOCSTRING
transformers.models.glm4.modeling_glm4 4.51.3 4.52.4 GLM4_INPUTS_DOCSTRING GLM4_START_DOCSTRING
transformers.models.glpn.modeling_glpn 4.30.2 4.52.4 GLPN_INPUTS_DOCSTRING GLPN_START_DOCSTRING
transformers.models.got_ocr2.modeling_got_ocr2 4.49.0 4.52.4 GOT_OCR2_INPUTS_DOCSTRING
transformers.models.got_ocr2.modeling_got_ocr2 4.49.0 4.52.4 GOT_OCR2_START_DOCSTRING
transformers.models.gpt2.modeling_gpt2 4.40.2 4.48.3 GPT2FlashAttention2 GPT2_ATTENTION_CLASSES
transformers.models.gpt2.modeling_gpt2 4.42.4 4.48.3 GPT2SdpaAttention
transformers.models.gpt2.modeling_gpt2 4.30.2 4.52.4 GPT2_INPUTS_DOCSTRING GPT2_START_DOCSTRING
transformers.models.gpt_bigcode.modeling_gpt_bigcode 4.30.2 4.52.4 GPT_BIGCODE_INPUTS_DOCSTRING
transformers.models.gpt_bigcode.modeling_gpt_bigcode 4.30.2 4.52.4 GPT_BIGCODE_START_DOCSTRING
transformers.models.gpt_bigcode.modeling_gpt_bigcode 4.38.2 4.54.1 GPTBIGCODE_ATTENTION_CLASSES
transformers.models.gpt_bigcode.modeling_gpt_bigcode 4.38.2 4.54.1 GPTBigCodeFlashAttention2
transformers.models.gpt_bigcode.modeling_gpt_bigcode 4.38.2 4.54.1 GPTBigCodeSdpaAttention
transformers.models.gpt_neo.modeling_gpt_neo 4.30.2 4.52.4 GPT_NEO_INPUTS_DOCSTRING
transformers.models.gpt_neo.modeling_gpt_neo 4.30.2 4.52.4 GPT_NEO_START_DOCSTRING
transformers.models.gpt_neo.modeling_gpt_neo 4.38.2 5.0.0 _prepare_4d_causal_attention_mask
transformers.models.gpt_neox.modeling_gpt_neox 4.38.2 4.49.0 GPTNeoXFlashAttention2
transformers.models.gpt_neox.modeling_gpt_neox 4.38.2 4.49.0 GPT_NEOX_ATTENTION_CLASSES
transformers.models.gpt_neox.modeling_gpt_neox 4.42.4 4.49.0 GPTNeoXSdpaAttention
transformers.models.gpt_neox.modeling_gpt_neox 4.30.2 4.52.4 GPT_NEOX_INPUTS_DOCSTRING
transformers.models.gpt_neox.modeling_gpt_neox 4.30.2 4.52.4 GPT_NEOX_START_DOCSTRING
transformers.models.gpt_neox_japanese.modeling_gpt_neox_japanese 4.30.2 4.52.4 GPT_NEOX_JAPANESE_INPUTS_DOCSTRING
transformers.models.gpt_neox_japanese.modeling_gpt_neox_japanese 4.30.2 4.52.4 GPT_NEOX_JAPANESE_START_DOCSTRING
transformers.models.gptj.modeling_gptj 4.30.2 4.52.4 GPTJ_INPUTS_DOCSTRING GPTJ_START_DOCSTRING
transformers.models.gptj.modeling_gptj 4.40.2 5.24.0 GPTJFlashAttention2 GPTJ_ATTENTION_CLASSES
transformers.models.granite.modeling_granite 4.45.2 4.52.4 GRANITE_INPUTS_DOCSTRING
transformers.models.granite.modeling_granite 4.45.2 4.52.4 GRANITE_START_DOCSTRING
transformers.models.granitemoe.modeling_granitemoe 4.45.2 4.52.4 GRANITEMOE_ATTENTION_CLASSES
transformers.models.granitemoe.modeling_granitemoe 4.45.2 4.52.4 GRANITEMOE_INPUTS_DOCSTRING
transformers.models.granitemoe.modeling_granitemoe 4.45.2 4.52.4 GRANITEMOE_START_DOCSTRING
transformers.models.granitemoe.modeling_granitemoe 4.45.2 4.52.4 GraniteMoeFlashAttention2
transformers.models.granitemoe.modeling_granitemoe 4.45.2 4.52.4 GraniteMoeSdpaAttention
transformers.models.granitemoeshared.modeling_granitemoeshared 4.49.0 4.52.4 GRANITEMOESHARED_ATTENTION_CLASSES
transformers.models.granitemoeshared.modeling_granitemoeshared 4.49.0 4.52.4 GRANITEMOESHARED_INPUTS_DOCSTRING
transformers.models.granitemoeshared.modeling_granitemoeshared 4.49.0 4.52.4 GRANITEMOESHARED_START_DOCSTRING
transformers.models.granitemoeshared.modeling_granitemoeshared 4.49.0 4.52.4 GraniteMoeSharedFlashAttention2
transformers.models.granitemoeshared.modeling_granitemoeshared 4.49.0 4.52.4 GraniteMoeSharedSdpaAttention
transformers.models.grounding_dino.modeling_grounding_dino 4.40.2 4.52.4 GROUNDING_DINO_INPUTS_DOCSTRING
transformers.models.grounding_dino.modeling_grounding_dino 4.40.2 4.52.4 GROUNDING_DINO_START_DOCSTRING
transformers.models.groupvit.modeling_groupvit 4.30.2 4.52.4 GROUPVIT_INPUTS_DOCSTRING
transformers.models.groupvit.modeling_groupvit 4.30.2 4.52.4 GROUPVIT_START_DOCSTRING
transformers.models.groupvit.modeling_groupvit 4.30.2 4.52.4 GROUPVIT_TEXT_INPUTS_DOCSTRING
transformers.models.groupvit.modeling_groupvit 4.30.2 4.52.4 GROUPVIT_VISION_INPUTS_DOCSTRING
transformers.models.helium.modeling_helium 4.49.0 4.52.4 HELIUM_INPUTS_DOCSTRING
transformers.models.helium.modeling_helium 4.49.0 4.52.4 HELIUM_START_DOCSTRING
transformers.models.hiera.modeling_hiera 4.44.2 4.52.4 HIERA_INPUTS_DOCSTRING
transformers.models.hiera.modeling_hiera 4.44.2 4.52.4 HIERA_START_DOCSTRING
transformers.models.hubert.modeling_hubert 4.30.2 4.52.4 HUBERT_INPUTS_DOCSTRING
transformers.models.hubert.modeling_hubert 4.30.2 4.52.4 HUBERT_START_DOCSTRING
transformers.models.hubert.modeling_hubert 4.42.4 4.53.3 HUBERT_ATTENTION_CLASSES
transformers.models.hubert.modeling_hubert 4.42.4 4.53.3 HubertFlashAttention2 HubertSdpaAttention
transformers.models.ibert.modeling_ibert 4.30.2 4.52.4 IBERT_INPUTS_DOCSTRING
transformers.models.ibert.modeling_ibert 4.30.2 4.52.4 IBERT_START_DOCSTRING
transformers.models.idefics.modeling_idefics 4.38.2 4.52.4 LLAMA_INPUTS_DOCSTRING
transformers.models.idefics.modeling_idefics 4.38.2 4.52.4 LLAMA_START_DOCSTRING
transformers.models.idefics2.modeling_idefics2 4.40.2 4.51.3 IDEFICS2_PERCEIVER_ATTENTION_CLASSES
transformers.models.idefics2.modeling_idefics2 4.40.2 4.51.3 IDEFICS_VISION_ATTENTION_CLASSES
transformers.models.idefics2.modeling_idefics2 4.40.2 4.51.3 Idefics2PerceiverFlashAttention2
transformers.models.idefics2.modeling_idefics2 4.40.2 4.51.3 Idefics2VisionFlashAttention2
transformers.models.idefics2.modeling_idefics2 4.40.2 4.52.4 IDEFICS2_INPUTS_DOCSTRING
transformers.models.idefics2.modeling_idefics2 4.40.2 4.52.4 IDEFICS2_START_DOCSTRING
transformers.models.idefics3.modeling_idefics3 4.46.3 4.52.4 IDEFICS3_INPUTS_DOCSTRING
transformers.models.idefics3.modeling_idefics3 4.46.3 4.52.4 IDEFICS3_START_DOCSTRING
transformers.models.idefics3.modeling_idefics3 4.46.3 4.52.4 IDEFICS3_VISION_START_DOCSTRING
transformers.models.ijepa.modeling_ijepa 4.47.1 4.52.4 IJEPA_INPUTS_DOCSTRING
transformers.models.ijepa.modeling_ijepa 4.47.1 4.52.4 IJEPA_START_DOCSTRING
transformers.models.imagegpt.modeling_imagegpt 4.30.2 4.52.4 IMAGEGPT_INPUTS_DOCSTRING
transformers.models.imagegpt.modeling_imagegpt 4.30.2 4.52.4 IMAGEGPT_START_DOCSTRING
transformers.models.informer.modeling_informer 4.30.2 4.52.4 INFORMER_INPUTS_DOCSTRING
transformers.models.informer.modeling_informer 4.30.2 4.52.4 INFORMER_START_DOCSTRING
transformers.models.instructblip.modeling_instructblip 4.38.2 4.52.4 INSTRUCTBLIP_INPUTS_DOCSTRING
transformers.models.instructblip.modeling_instructblip 4.38.2 4.52.4 INSTRUCTBLIP_START_DOCSTRING
transformers.models.instructblip.modeling_instructblip 4.38.2 4.52.4 INSTRUCTBLIP_VISION_INPUTS_DOCSTRING
transformers.models.instructblipvideo.modeling_instructblipvideo 4.42.4 4.52.4 INSTRUCTBLIPVIDEO_INPUTS_DOCSTRING
transformers.models.instructblipvideo.modeling_instructblipvideo 4.42.4 4.52.4 INSTRUCTBLIPVIDEO_START_DOCSTRING
transformers.models.instructblipvideo.modeling_instructblipvideo 4.42.4 4.52.4 INSTRUCTBLIPVIDEO_VISION_INPUTS_DOCSTRING
transformers.models.jamba.modeling_jamba 4.40.2 4.52.4 JAMBA_INPUTS_DOCSTRING
transformers.models.jamba.modeling_jamba 4.40.2 4.52.4 JAMBA_START_DOCSTRING
transformers.models.jamba.modeling_jamba 4.40.2 5.0.0 JAMBA_ATTENTION_CLASSES JambaFlashAttention2
transformers.models.jamba.modeling_jamba 4.40.2 5.0.0 JambaSdpaAttention
transformers.models.jetmoe.modeling_jetmoe 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.jetmoe.modeling_jetmoe 4.42.4 4.52.4 JETMOE_INPUTS_DOCSTRING
transformers.models.jetmoe.modeling_jetmoe 4.42.4 4.52.4 JETMOE_START_DOCSTRING
transformers.models.jetmoe.modeling_jetmoe 4.42.4 5.0.0 JETMOE_ATTENTION_CLASSES
transformers.models.jetmoe.modeling_jetmoe 4.42.4 5.0.0 JetMoeFlashAttention2 JetMoeSdpaAttention
transformers.models.kosmos2.modeling_kosmos2 4.38.2 4.52.4 KOSMOS2_INPUTS_DOCSTRING
transformers.models.kosmos2.modeling_kosmos2 4.38.2 4.52.4 KOSMOS2_START_DOCSTRING
transformers.models.kosmos2.modeling_kosmos2 4.38.2 4.52.4 KOSMOS2_TEXT_INPUTS_DOCSTRING
transformers.models.kosmos2.modeling_kosmos2 4.38.2 4.52.4 KOSMOS2_VISION_INPUTS_DOCSTRING
transformers.models.kyutai_speech_to_text.modeling_kyutai_speech_to_text 4.53.3 5.13.1 KYUTAI_SPEECH_TO_TEXT_ATTENTION_CLASSES
transformers.models.kyutai_speech_to_text.modeling_kyutai_speech_to_text 4.53.3 5.13.1 KyutaiSpeechToTextFlashAttention2
transformers.models.kyutai_speech_to_text.modeling_kyutai_speech_to_text 4.53.3 5.13.1 KyutaiSpeechToTextSdpaAttention
transformers.models.layoutlm.modeling_layoutlm 4.30.2 4.52.4 LAYOUTLM_INPUTS_DOCSTRING
transformers.models.layoutlm.modeling_layoutlm 4.30.2 4.52.4 LAYOUTLM_START_DOCSTRING
transformers.models.layoutlm.modeling_layoutlm 4.42.4 4.54.1 LAYOUTLM_SELF_ATTENTION_CLASSES
transformers.models.layoutlmv2.modeling_layoutlmv2 4.30.2 4.52.4 LAYOUTLMV2_INPUTS_DOCSTRING
transformers.models.layoutlmv2.modeling_layoutlmv2 4.30.2 4.52.4 LAYOUTLMV2_START_DOCSTRING
transformers.models.layoutlmv3.modeling_layoutlmv3 4.30.2 4.52.4 LAYOUTLMV3_DOWNSTREAM_INPUTS_DOCSTRING
transformers.models.layoutlmv3.modeling_layoutlmv3 4.30.2 4.52.4 LAYOUTLMV3_MODEL_INPUTS_DOCSTRING
transformers.models.layoutlmv3.modeling_layoutlmv3 4.30.2 4.52.4 LAYOUTLMV3_START_DOCSTRING
transformers.models.led.modeling_led 4.30.2 4.52.4 LED_INPUTS_DOCSTRING LED_START_DOCSTRING
transformers.models.levit.modeling_levit 4.30.2 4.52.4 LEVIT_INPUTS_DOCSTRING
transformers.models.levit.modeling_levit 4.30.2 4.52.4 LEVIT_START_DOCSTRING
transformers.models.lilt.modeling_lilt 4.30.2 4.52.4 LILT_INPUTS_DOCSTRING LILT_START_DOCSTRING
transformers.models.llama.modeling_llama 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.llama.modeling_llama 4.38.2 4.48.3 LLAMA_ATTENTION_CLASSES
transformers.models.llama.modeling_llama 4.38.2 4.48.3 LlamaFlashAttention2 LlamaSdpaAttention
transformers.models.llama.modeling_llama 4.30.2 4.52.4 LLAMA_INPUTS_DOCSTRING
transformers.models.llama.modeling_llama 4.30.2 4.52.4 LLAMA_START_DOCSTRING
transformers.models.llama4.modeling_llama4 4.51.3 4.52.4 LLAMA4_INPUTS_DOCSTRING
transformers.models.llama4.modeling_llama4 4.51.3 4.52.4 LLAMA4_START_DOCSTRING
transformers.models.llama4.modeling_llama4 4.51.3 4.52.4 LLAVA_START_DOCSTRING
transformers.models.llava.modeling_llava 4.38.2 4.52.4 LLAVA_INPUTS_DOCSTRING
transformers.models.llava.modeling_llava 4.38.2 4.52.4 LLAVA_START_DOCSTRING
transformers.models.llava_next.modeling_llava_next 4.40.2 4.52.4 LLAVA_NEXT_INPUTS_DOCSTRING
transformers.models.llava_next.modeling_llava_next 4.40.2 4.52.4 LLAVA_NEXT_START_DOCSTRING
transformers.models.llava_next_video.modeling_llava_next_video 4.42.4 4.52.4 LLAVA_NEXT_VIDEO_INPUTS_DOCSTRING
transformers.models.llava_next_video.modeling_llava_next_video 4.42.4 4.52.4 LLAVA_NEXT_VIDEO_START_DOCSTRING
transformers.models.llava_onevision.modeling_llava_onevision 4.45.2 4.52.4 LLAVA_ONEVISION_INPUTS_DOCSTRING
transformers.models.llava_onevision.modeling_llava_onevision 4.45.2 4.52.4 LLAVA_ONEVISION_START_DOCSTRING
transformers.models.longcat_flash.modeling_longcat_flash 4.57.6 5.11.0 rotate_half
transformers.models.longformer.modeling_longformer 4.30.2 4.52.4 LONGFORMER_INPUTS_DOCSTRING
transformers.models.longformer.modeling_longformer 4.30.2 4.52.4 LONGFORMER_START_DOCSTRING
transformers.models.longt5.modeling_longt5 4.30.2 4.52.4 LONGT5_ENCODER_INPUTS_DOCSTRING
transformers.models.longt5.modeling_longt5 4.30.2 4.52.4 LONGT5_INPUTS_DOCSTRING
transformers.models.longt5.modeling_longt5 4.30.2 4.52.4 LONGT5_START_DOCSTRING
transformers.models.luke.modeling_luke 4.30.2 4.52.4 LUKE_INPUTS_DOCSTRING LUKE_START_DOCSTRING
transformers.models.lxmert.modeling_lxmert 4.30.2 4.52.4 LXMERT_INPUTS_DOCSTRING
transformers.models.lxmert.modeling_lxmert 4.30.2 4.52.4 LXMERT_START_DOCSTRING
transformers.models.m2m_100.modeling_m2m_100 4.30.2 4.52.4 M2M_100_INPUTS_DOCSTRING
transformers.models.m2m_100.modeling_m2m_100 4.30.2 4.52.4 M2M_100_START_DOCSTRING
transformers.models.m2m_100.modeling_m2m_100 4.38.2 4.53.3 M2M100_ATTENTION_CLASSES
transformers.models.m2m_100.modeling_m2m_100 4.40.2 4.53.3 M2M100FlashAttention2
transformers.models.m2m_100.modeling_m2m_100 4.45.2 4.53.3 M2M100SdpaAttention
transformers.models.mamba.modeling_mamba 4.40.2 4.52.4 MAMBA_INPUTS_DOCSTRING
transformers.models.mamba.modeling_mamba 4.40.2 4.52.4 MAMBA_START_DOCSTRING
transformers.models.mamba2.modeling_mamba2 4.44.2 4.52.4 MAMBA2_INPUTS_DOCSTRING
transformers.models.mamba2.modeling_mamba2 4.44.2 4.52.4 MAMBA2_START_DOCSTRING
transformers.models.marian.modeling_marian 4.30.2 4.52.4 MARIAN_INPUTS_DOCSTRING
transformers.models.marian.modeling_marian 4.30.2 4.52.4 MARIAN_START_DOCSTRING
transformers.models.marian.modeling_marian 4.38.2 4.53.3 MARIAN_ATTENTION_CLASSES
transformers.models.markuplm.modeling_markuplm 4.30.2 4.52.4 MARKUPLM_INPUTS_DOCSTRING
transformers.models.markuplm.modeling_markuplm 4.30.2 4.52.4 MARKUPLM_START_DOCSTRING
transformers.models.markuplm.modeling_markuplm 4.42.4 4.54.1 MARKUPLM_SELF_ATTENTION_CLASSES
transformers.models.mask2former.modeling_mask2former 4.30.2 4.52.4 MASK2FORMER_INPUTS_DOCSTRING
transformers.models.mask2former.modeling_mask2former 4.30.2 4.52.4 MASK2FORMER_START_DOCSTRING
transformers.models.maskformer.modeling_maskformer 4.30.2 4.52.4 MASKFORMER_INPUTS_DOCSTRING
transformers.models.maskformer.modeling_maskformer 4.30.2 4.52.4 MASKFORMER_START_DOCSTRING
transformers.models.mbart.modeling_mbart 4.30.2 4.52.4 MBART_INPUTS_DOCSTRING
transformers.models.mbart.modeling_mbart 4.30.2 4.52.4 MBART_START_DOCSTRING
transformers.models.mbart.modeling_mbart 4.38.2 4.53.3 MBART_ATTENTION_CLASSES
transformers.models.mbart.modeling_mbart 4.38.2 4.53.3 MBartFlashAttention2
transformers.models.mbart.modeling_mbart 4.45.2 4.53.3 MBartSdpaAttention
transformers.models.megatron_bert.modeling_megatron_bert 4.30.2 4.52.4 MEGATRON_BERT_INPUTS_DOCSTRING
transformers.models.megatron_bert.modeling_megatron_bert 4.30.2 4.52.4 MEGATRON_BERT_START_DOCSTRING
transformers.models.mgp_str.modeling_mgp_str 4.30.2 4.52.4 MGP_STR_INPUTS_DOCSTRING
transformers.models.mgp_str.modeling_mgp_str 4.30.2 4.52.4 MGP_STR_START_DOCSTRING
transformers.models.mimi.modeling_mimi 4.45.2 4.52.4 MIMI_INPUTS_DOCSTRING MIMI_START_DOCSTRING
transformers.models.mimi.modeling_mimi 4.45.2 5.13.1 MIMI_ATTENTION_CLASSES MimiFlashAttention2
transformers.models.mimi.modeling_mimi 4.45.2 5.13.1 MimiSdpaAttention
transformers.models.mistral.modeling_mistral 4.38.2 4.48.3 MISTRAL_ATTENTION_CLASSES
transformers.models.mistral.modeling_mistral 4.38.2 4.48.3 MistralFlashAttention2
transformers.models.mistral.modeling_mistral 4.38.2 4.48.3 MistralSdpaAttention
transformers.models.mistral.modeling_mistral 4.38.2 4.52.4 MISTRAL_INPUTS_DOCSTRING
transformers.models.mistral.modeling_mistral 4.38.2 4.52.4 MISTRAL_START_DOCSTRING
transformers.models.mistral3.modeling_mistral3 4.50.3 4.52.4 MISTRAL3_INPUTS_DOCSTRING
transformers.models.mistral3.modeling_mistral3 4.50.3 4.52.4 MISTRAL3_START_DOCSTRING
transformers.models.mixtral.modeling_mixtral 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.mixtral.modeling_mixtral 4.38.2 4.48.3 MIXTRAL_ATTENTION_CLASSES
transformers.models.mixtral.modeling_mixtral 4.38.2 4.48.3 MixtralFlashAttention2
transformers.models.mixtral.modeling_mixtral 4.38.2 4.48.3 MixtralSdpaAttention
transformers.models.mixtral.modeling_mixtral 4.38.2 4.52.4 MIXTRAL_INPUTS_DOCSTRING
transformers.models.mixtral.modeling_mixtral 4.38.2 4.52.4 MIXTRAL_START_DOCSTRING
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_INPUTS_DOCSTRING
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_START_DOCSTRING
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_TEXT_ATTENTION_CLASSES
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_TEXT_CROSS_ATTENTION_CLASSES
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_TEXT_INPUTS_DOCSTRING
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_VISION_ATTENTION_CLASSES
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MLLAMA_VISION_INPUTS_DOCSTRING
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MllamaTextCrossSdpaAttention
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MllamaTextSelfSdpaAttention
transformers.models.mllama.modeling_mllama 4.45.2 4.52.4 MllamaVisionSdpaAttention
transformers.models.mobilebert.modeling_mobilebert 4.30.2 4.52.4 MOBILEBERT_INPUTS_DOCSTRING
transformers.models.mobilebert.modeling_mobilebert 4.30.2 4.52.4 MOBILEBERT_START_DOCSTRING
transformers.models.mobilenet_v1.modeling_mobilenet_v1 4.30.2 4.52.4 MOBILENET_V1_INPUTS_DOCSTRING
transformers.models.mobilenet_v1.modeling_mobilenet_v1 4.30.2 4.52.4 MOBILENET_V1_START_DOCSTRING
transformers.models.mobilenet_v2.modeling_mobilenet_v2 4.30.2 4.52.4 MOBILENET_V2_INPUTS_DOCSTRING
transformers.models.mobilenet_v2.modeling_mobilenet_v2 4.30.2 4.52.4 MOBILENET_V2_START_DOCSTRING
transformers.models.mobilevit.modeling_mobilevit 4.30.2 4.52.4 MOBILEVIT_INPUTS_DOCSTRING
transformers.models.mobilevit.modeling_mobilevit 4.30.2 4.52.4 MOBILEVIT_START_DOCSTRING
transformers.models.mobilevitv2.modeling_mobilevitv2 4.30.2 4.52.4 MOBILEVITV2_INPUTS_DOCSTRING
transformers.models.mobilevitv2.modeling_mobilevitv2 4.30.2 4.52.4 MOBILEVITV2_START_DOCSTRING
transformers.models.modernbert.modeling_modernbert 4.48.3 4.52.4 MODERNBERT_INPUTS_DOCSTRING
transformers.models.modernbert.modeling_modernbert 4.48.3 4.52.4 MODERNBERT_START_DOCSTRING
transformers.models.modernbert.modeling_modernbert 4.48.3 5.1.0 apply_rotary_unpadded
transformers.models.moonshine.modeling_moonshine 4.48.3 4.52.4 MOONSHINE_INPUTS_DOCSTRING
transformers.models.moonshine.modeling_moonshine 4.48.3 4.52.4 MOONSHINE_MODEL_INPUTS_DOCSTRING
transformers.models.moonshine.modeling_moonshine 4.48.3 4.52.4 MOONSHINE_START_DOCSTRING
transformers.models.moshi.modeling_moshi 4.46.3 4.52.4 MOSHI_DECODER_INPUTS_DOCSTRING
transformers.models.moshi.modeling_moshi 4.46.3 4.52.4 MOSHI_INPUTS_DOCSTRING
transformers.models.moshi.modeling_moshi 4.46.3 4.52.4 MOSHI_START_DOCSTRING
transformers.models.moshi.modeling_moshi 4.46.3 5.13.1 MOSHI_ATTENTION_CLASSES
transformers.models.moshi.modeling_moshi 4.46.3 5.13.1 MoshiFlashAttention2 MoshiSdpaAttention
transformers.models.mpnet.modeling_mpnet 4.30.2 4.52.4 MPNET_INPUTS_DOCSTRING
transformers.models.mpnet.modeling_mpnet 4.30.2 4.52.4 MPNET_START_DOCSTRING
transformers.models.mpt.modeling_mpt 4.38.2 4.52.4 MPT_INPUTS_DOCSTRING MPT_START_DOCSTRING
transformers.models.mra.modeling_mra 4.38.2 4.52.4 MRA_INPUTS_DOCSTRING MRA_START_DOCSTRING
transformers.models.mt5.modeling_mt5 4.30.2 4.52.4 MT5_ENCODER_INPUTS_DOCSTRING
transformers.models.mt5.modeling_mt5 4.30.2 4.52.4 MT5_INPUTS_DOCSTRING MT5_START_DOCSTRING
transformers.models.musicgen.modeling_musicgen 4.38.2 4.52.4 MUSICGEN_DECODER_INPUTS_DOCSTRING
transformers.models.musicgen.modeling_musicgen 4.38.2 4.52.4 MUSICGEN_INPUTS_DOCSTRING
transformers.models.musicgen.modeling_musicgen 4.38.2 4.52.4 MUSICGEN_START_DOCSTRING
transformers.models.musicgen.modeling_musicgen 4.40.2 4.53.3 MUSICGEN_ATTENTION_CLASSES
transformers.models.musicgen.modeling_musicgen 4.40.2 4.53.3 MusicgenFlashAttention2
transformers.models.musicgen.modeling_musicgen 4.40.2 4.53.3 MusicgenSdpaAttention
transformers.models.musicgen_melody.modeling_musicgen_melody 4.40.2 4.52.4 MUSICGEN_MELODY_DECODER_INPUTS_DOCSTRING
transformers.models.musicgen_melody.modeling_musicgen_melody 4.40.2 4.52.4 MUSICGEN_MELODY_INPUTS_DOCSTRING
transformers.models.musicgen_melody.modeling_musicgen_melody 4.40.2 4.52.4 MUSICGEN_MELODY_START_DOCSTRING
transformers.models.musicgen_melody.modeling_musicgen_melody 4.40.2 4.53.3 MUSICGEN_MELODY_ATTENTION_CLASSES
transformers.models.musicgen_melody.modeling_musicgen_melody 4.40.2 4.53.3 MusicgenMelodyFlashAttention2
transformers.models.musicgen_melody.modeling_musicgen_melody 4.40.2 4.53.3 MusicgenMelodySdpaAttention
transformers.models.mvp.modeling_mvp 4.30.2 4.52.4 MVP_INPUTS_DOCSTRING MVP_START_DOCSTRING
transformers.models.nemotron.modeling_nemotron 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.nemotron.modeling_nemotron 4.44.2 4.52.4 NEMOTRON_INPUTS_DOCSTRING
transformers.models.nemotron.modeling_nemotron 4.44.2 4.52.4 NEMOTRON_START_DOCSTRING
transformers.models.nemotron.modeling_nemotron 4.44.2 5.13.1 NEMOTRON_ATTENTION_CLASSES
transformers.models.nemotron.modeling_nemotron 4.44.2 5.13.1 NemotronFlashAttention2
transformers.models.nemotron.modeling_nemotron 4.44.2 5.13.1 NemotronSdpaAttention
transformers.models.nllb_moe.modeling_nllb_moe 4.30.2 4.52.4 NLLB_MOE_INPUTS_DOCSTRING
transformers.models.nllb_moe.modeling_nllb_moe 4.30.2 4.52.4 NLLB_MOE_START_DOCSTRING
transformers.models.nystromformer.modeling_nystromformer 4.30.2 4.52.4 NYSTROMFORMER_INPUTS_DOCSTRING
transformers.models.nystromformer.modeling_nystromformer 4.30.2 4.52.4 NYSTROMFORMER_START_DOCSTRING
transformers.models.olmo.modeling_olmo 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.olmo.modeling_olmo 4.40.2 4.48.3 OLMO_ATTENTION_CLASSES OlmoFlashAttention2
transformers.models.olmo.modeling_olmo 4.40.2 4.48.3 OlmoSdpaAttention
transformers.models.olmo.modeling_olmo 4.40.2 4.52.4 OLMO_INPUTS_DOCSTRING OLMO_START_DOCSTRING
transformers.models.olmo2.modeling_olmo2 4.47.1 4.52.4 OLMO2_INPUTS_DOCSTRING
transformers.models.olmo2.modeling_olmo2 4.47.1 4.52.4 OLMO2_START_DOCSTRING
transformers.models.olmoe.modeling_olmoe 4.45.2 4.52.4 OLMOE_INPUTS_DOCSTRING
transformers.models.olmoe.modeling_olmoe 4.45.2 4.52.4 OLMOE_START_DOCSTRING
transformers.models.olmoe.modeling_olmoe 4.45.2 5.0.0 OLMOE_ATTENTION_CLASSES OlmoeFlashAttention2
transformers.models.olmoe.modeling_olmoe 4.45.2 5.0.0 OlmoeSdpaAttention
transformers.models.omdet_turbo.modeling_omdet_turbo 4.45.2 4.52.4 OMDET_TURBO_INPUTS_DOCSTRING
transformers.models.omdet_turbo.modeling_omdet_turbo 4.45.2 4.52.4 OMDET_TURBO_START_DOCSTRING
transformers.models.oneformer.modeling_oneformer 4.30.2 4.52.4 ONEFORMER_INPUTS_DOCSTRING
transformers.models.oneformer.modeling_oneformer 4.30.2 4.52.4 ONEFORMER_START_DOCSTRING
transformers.models.openai.modeling_openai 4.30.2 4.52.4 OPENAI_GPT_INPUTS_DOCSTRING
transformers.models.openai.modeling_openai 4.30.2 4.52.4 OPENAI_GPT_START_DOCSTRING
transformers.models.opt.modeling_opt 4.30.2 4.52.4 OPT_INPUTS_DOCSTRING OPT_START_DOCSTRING
transformers.models.opt.modeling_opt 4.38.2 4.52.4 OPT_ATTENTION_CLASSES OptFlashAttention2
transformers.models.opt.modeling_opt 4.46.3 4.52.4 OPTSdpaAttention
transformers.models.owlv2.modeling_owlv2 4.38.2 4.52.4 OWLV2_IMAGE_GUIDED_OBJECT_DETECTION_INPUTS_DOCSTRING
transformers.models.owlv2.modeling_owlv2 4.38.2 4.52.4 OWLV2_INPUTS_DOCSTRING
transformers.models.owlv2.modeling_owlv2 4.38.2 4.52.4 OWLV2_OBJECT_DETECTION_INPUTS_DOCSTRING
transformers.models.owlv2.modeling_owlv2 4.38.2 4.52.4 OWLV2_START_DOCSTRING
transformers.models.owlv2.modeling_owlv2 4.38.2 4.52.4 OWLV2_TEXT_INPUTS_DOCSTRING
transformers.models.owlv2.modeling_owlv2 4.38.2 4.52.4 OWLV2_VISION_INPUTS_DOCSTRING
transformers.models.owlvit.modeling_owlvit 4.30.2 4.52.4 OWLVIT_IMAGE_GUIDED_OBJECT_DETECTION_INPUTS_DOCSTRING
transformers.models.owlvit.modeling_owlvit 4.30.2 4.52.4 OWLVIT_INPUTS_DOCSTRING
transformers.models.owlvit.modeling_owlvit 4.30.2 4.52.4 OWLVIT_OBJECT_DETECTION_INPUTS_DOCSTRING
transformers.models.owlvit.modeling_owlvit 4.30.2 4.52.4 OWLVIT_START_DOCSTRING
transformers.models.owlvit.modeling_owlvit 4.30.2 4.52.4 OWLVIT_TEXT_INPUTS_DOCSTRING
transformers.models.owlvit.modeling_owlvit 4.30.2 4.52.4 OWLVIT_VISION_INPUTS_DOCSTRING
transformers.models.paligemma.modeling_paligemma 4.42.4 4.52.4 PALIGEMMA_INPUTS_DOCSTRING
transformers.models.paligemma.modeling_paligemma 4.42.4 4.52.4 PALIGEMMA_START_DOCSTRING
transformers.models.paligemma.modeling_paligemma 4.45.2 4.52.4 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.patchtsmixer.modeling_patchtsmixer 4.38.2 4.52.4 PATCHTSMIXER_INPUTS_DOCSTRING
transformers.models.patchtsmixer.modeling_patchtsmixer 4.38.2 4.52.4 PATCHTSMIXER_START_DOCSTRING
transformers.models.patchtst.modeling_patchtst 4.38.2 4.52.4 PATCHTST_START_DOCSTRING
transformers.models.pegasus.modeling_pegasus 4.30.2 4.52.4 PEGASUS_INPUTS_DOCSTRING
transformers.models.pegasus.modeling_pegasus 4.30.2 4.52.4 PEGASUS_START_DOCSTRING
transformers.models.pegasus.modeling_pegasus 4.38.2 4.53.3 PEGASUS_ATTENTION_CLASSES
transformers.models.pegasus_x.modeling_pegasus_x 4.30.2 4.52.4 PEGASUS_X_INPUTS_DOCSTRING
transformers.models.pegasus_x.modeling_pegasus_x 4.30.2 4.52.4 PEGASUS_X_START_DOCSTRING
transformers.models.perceiver.modeling_perceiver 4.30.2 4.52.4 PERCEIVER_INPUTS_DOCSTRING
transformers.models.perceiver.modeling_perceiver 4.30.2 4.52.4 PERCEIVER_MODEL_START_DOCSTRING
transformers.models.perceiver.modeling_perceiver 4.30.2 4.52.4 PERCEIVER_START_DOCSTRING
transformers.models.persimmon.modeling_persimmon 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.persimmon.modeling_persimmon 4.38.2 4.52.4 PERSIMMON_INPUTS_DOCSTRING
transformers.models.persimmon.modeling_persimmon 4.38.2 4.52.4 PERSIMMON_START_DOCSTRING
transformers.models.phi.modeling_phi 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.phi.modeling_phi 4.38.2 4.48.3 PHI_ATTENTION_CLASSES PhiFlashAttention2
transformers.models.phi.modeling_phi 4.40.2 4.48.3 PhiSdpaAttention
transformers.models.phi.modeling_phi 4.38.2 4.52.4 PHI_INPUTS_DOCSTRING PHI_START_DOCSTRING
transformers.models.phi3.modeling_phi3 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.phi3.modeling_phi3 4.42.4 4.48.3 PHI3_ATTENTION_CLASSES Phi3FlashAttention2
transformers.models.phi3.modeling_phi3 4.42.4 4.48.3 Phi3SdpaAttention
transformers.models.phi3.modeling_phi3 4.42.4 4.52.4 PHI3_INPUTS_DOCSTRING PHI3_START_DOCSTRING
transformers.models.phi4_multimodal.modeling_phi4_multimodal 4.51.3 4.52.4 PHI4_MULTIMODAL_MODEL_INPUTS_DOCSTRING
transformers.models.phi4_multimodal.modeling_phi4_multimodal 4.51.3 4.52.4 PHI4_MULTIMODAL_START_DOCSTRING
transformers.models.phimoe.modeling_phimoe 4.46.3 4.52.4 PHIMOE_INPUTS_DOCSTRING
transformers.models.phimoe.modeling_phimoe 4.46.3 4.52.4 PHIMOE_START_DOCSTRING
transformers.models.phimoe.modeling_phimoe 4.46.3 5.0.0 PHIMOE_ATTENTION_CLASSES
transformers.models.phimoe.modeling_phimoe 4.46.3 5.0.0 PhimoeFlashAttention2 PhimoeSdpaAttention
transformers.models.phimoe.modeling_phimoe 4.46.3 5.0.0 _prepare_4d_causal_attention_mask
transformers.models.pix2struct.modeling_pix2struct 4.30.2 4.52.4 PIX2STRUCT_INPUTS_DOCSTRING
transformers.models.pix2struct.modeling_pix2struct 4.30.2 4.52.4 PIX2STRUCT_START_DOCSTRING
transformers.models.pix2struct.modeling_pix2struct 4.30.2 4.52.4 PIX2STRUCT_TEXT_INPUTS_DOCSTRING
transformers.models.pix2struct.modeling_pix2struct 4.30.2 4.52.4 PIX2STRUCT_VISION_INPUTS_DOCSTRING
transformers.models.pix2struct.modeling_pix2struct 4.30.2 4.52.4 PIX2STRUCT_VISION_START_DOCSTRING
transformers.models.pixtral.modeling_pixtral 4.45.2 4.52.4 PIXTRAL_INPUTS_DOCSTRING
transformers.models.pixtral.modeling_pixtral 4.45.2 4.52.4 PIXTRAL_START_DOCSTRING
transformers.models.plbart.modeling_plbart 4.30.2 4.52.4 PLBART_INPUTS_DOCSTRING
transformers.models.plbart.modeling_plbart 4.30.2 4.52.4 PLBART_START_DOCSTRING
transformers.models.plbart.modeling_plbart 4.38.2 4.53.3 PLBART_ATTENTION_CLASSES
transformers.models.poolformer.modeling_poolformer 4.30.2 4.52.4 POOLFORMER_INPUTS_DOCSTRING
transformers.models.poolformer.modeling_poolformer 4.30.2 4.52.4 POOLFORMER_START_DOCSTRING
transformers.models.pop2piano.modeling_pop2piano 4.38.2 4.52.4 POP2PIANO_INPUTS_DOCSTRING
transformers.models.pop2piano.modeling_pop2piano 4.38.2 4.52.4 Pop2Piano_START_DOCSTRING
transformers.models.prompt_depth_anything.modeling_prompt_depth_anything 4.50.3 4.52.4 PROMPT_DEPTH_ANYTHING_INPUTS_DOCSTRING
transformers.models.prompt_depth_anything.modeling_prompt_depth_anything 4.50.3 4.52.4 PROMPT_DEPTH_ANYTHING_START_DOCSTRING
transformers.models.prophetnet.modeling_prophetnet 4.30.2 4.52.4 PROPHETNET_INPUTS_DOCSTRING
transformers.models.prophetnet.modeling_prophetnet 4.30.2 4.52.4 PROPHETNET_STANDALONE_INPUTS_DOCSTRING
transformers.models.prophetnet.modeling_prophetnet 4.30.2 4.52.4 PROPHETNET_START_DOCSTRING
transformers.models.pvt.modeling_pvt 4.38.2 4.52.4 PVT_INPUTS_DOCSTRING PVT_START_DOCSTRING
transformers.models.pvt_v2.modeling_pvt_v2 4.40.2 4.52.4 PVT_V2_INPUTS_DOCSTRING
transformers.models.pvt_v2.modeling_pvt_v2 4.40.2 4.52.4 PVT_V2_START_DOCSTRING
transformers.models.qwen2.modeling_qwen2 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.qwen2.modeling_qwen2 4.38.2 4.48.3 QWEN2_ATTENTION_CLASSES
transformers.models.qwen2.modeling_qwen2 4.38.2 4.48.3 Qwen2FlashAttention2 Qwen2SdpaAttention
transformers.models.qwen2.modeling_qwen2 4.38.2 4.52.4 QWEN2_INPUTS_DOCSTRING
transformers.models.qwen2.modeling_qwen2 4.38.2 4.52.4 QWEN2_START_DOCSTRING
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.52.4 QWEN2_5_VL_INPUTS_DOCSTRING
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.52.4 Qwen2_5_VL_START_DOCSTRING
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 QWEN2_5_VL_ATTENTION_CLASSES
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 QWEN2_5_VL_VISION_ATTENTION_CLASSES
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 Qwen2_5_VLFlashAttention2
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 Qwen2_5_VLSdpaAttention
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 Qwen2_5_VLVisionFlashAttention2
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 Qwen2_5_VLVisionSdpaAttention
transformers.models.qwen2_5_vl.modeling_qwen2_5_vl 4.49.0 4.53.3 apply_rotary_pos_emb_flashatt
transformers.models.qwen2_audio.modeling_qwen2_audio 4.45.2 4.52.4 QWEN2AUDIOENCODER_START_DOCSTRING
transformers.models.qwen2_audio.modeling_qwen2_audio 4.45.2 4.52.4 QWEN2AUDIO_INPUTS_DOCSTRING
transformers.models.qwen2_audio.modeling_qwen2_audio 4.45.2 4.52.4 QWEN2AUDIO_START_DOCSTRING
transformers.models.qwen2_audio.modeling_qwen2_audio 4.45.2 4.53.3 QWEN2AUDIO_ATTENTION_CLASSES
transformers.models.qwen2_audio.modeling_qwen2_audio 4.45.2 4.53.3 Qwen2AudioFlashAttention2
transformers.models.qwen2_audio.modeling_qwen2_audio 4.45.2 4.53.3 Qwen2AudioSdpaAttention
transformers.models.qwen2_moe.modeling_qwen2_moe 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.qwen2_moe.modeling_qwen2_moe 4.40.2 4.52.4 QWEN2MOE_INPUTS_DOCSTRING
transformers.models.qwen2_moe.modeling_qwen2_moe 4.40.2 4.52.4 QWEN2MOE_START_DOCSTRING
transformers.models.qwen2_moe.modeling_qwen2_moe 4.40.2 5.0.0 QWEN2MOE_ATTENTION_CLASSES
transformers.models.qwen2_moe.modeling_qwen2_moe 4.40.2 5.0.0 Qwen2MoeFlashAttention2
transformers.models.qwen2_moe.modeling_qwen2_moe 4.40.2 5.0.0 Qwen2MoeSdpaAttention
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.52.4 QWEN2VL_START_DOCSTRING
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.52.4 QWEN2_VL_INPUTS_DOCSTRING
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.53.3 QWEN2_VL_ATTENTION_CLASSES
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.53.3 QWEN2_VL_VISION_ATTENTION_CLASSES
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.53.3 Qwen2VLFlashAttention2
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.53.3 Qwen2VLSdpaAttention
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.53.3 VisionFlashAttention2
transformers.models.qwen2_vl.modeling_qwen2_vl 4.45.2 4.53.3 VisionSdpaAttention
transformers.models.qwen3.modeling_qwen3 4.51.3 4.52.4 QWEN3_INPUTS_DOCSTRING
transformers.models.qwen3.modeling_qwen3 4.51.3 4.52.4 QWEN3_START_DOCSTRING
transformers.models.qwen3_moe.modeling_qwen3_moe 4.51.3 4.52.4 QWEN3_MOE_INPUTS_DOCSTRING
transformers.models.qwen3_moe.modeling_qwen3_moe 4.51.3 4.52.4 QWEN3_MOE_START_DOCSTRING
transformers.models.rag.modeling_rag 4.30.2 4.52.4 RAG_FORWARD_INPUTS_DOCSTRING
transformers.models.rag.modeling_rag 4.30.2 4.52.4 RAG_START_DOCSTRING
transformers.models.recurrent_gemma.modeling_recurrent_gemma 4.40.2 4.52.4 RECURRENTGEMMA_INPUTS_DOCSTRING
transformers.models.recurrent_gemma.modeling_recurrent_gemma 4.40.2 4.52.4 RECURRENTGEMMA_START_DOCSTRING
transformers.models.recurrent_gemma.modeling_recurrent_gemma 4.40.2 5.13.1 RecurrentGemmaSdpaAttention
transformers.models.reformer.modeling_reformer 4.30.2 4.52.4 REFORMER_INPUTS_DOCSTRING
transformers.models.reformer.modeling_reformer 4.30.2 4.52.4 REFORMER_START_DOCSTRING
transformers.models.regnet.modeling_regnet 4.30.2 4.52.4 REGNET_INPUTS_DOCSTRING
transformers.models.regnet.modeling_regnet 4.30.2 4.52.4 REGNET_START_DOCSTRING
transformers.models.rembert.modeling_rembert 4.30.2 4.52.4 REMBERT_INPUTS_DOCSTRING
transformers.models.rembert.modeling_rembert 4.30.2 4.52.4 REMBERT_START_DOCSTRING
transformers.models.resnet.modeling_resnet 4.30.2 4.52.4 RESNET_INPUTS_DOCSTRING
transformers.models.resnet.modeling_resnet 4.30.2 4.52.4 RESNET_START_DOCSTRING
transformers.models.roberta.modeling_roberta 4.30.2 4.52.4 ROBERTA_INPUTS_DOCSTRING
transformers.models.roberta.modeling_roberta 4.30.2 4.52.4 ROBERTA_START_DOCSTRING
transformers.models.roberta.modeling_roberta 4.42.4 5.0.0 ROBERTA_SELF_ATTENTION_CLASSES
transformers.models.roberta.modeling_roberta 4.45.2 5.0.0 RobertaSdpaSelfAttention
transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm 4.30.2 4.52.4 ROBERTA_PRELAYERNORM_INPUTS_DOCSTRING
transformers.models.roberta_prelayernorm.modeling_roberta_prelayernorm 4.30.2 4.52.4 ROBERTA_PRELAYERNORM_START_DOCSTRING
transformers.models.roc_bert.modeling_roc_bert 4.30.2 4.52.4 ROC_BERT_INPUTS_DOCSTRING
transformers.models.roc_bert.modeling_roc_bert 4.30.2 4.52.4 ROC_BERT_START_DOCSTRING
transformers.models.roc_bert.modeling_roc_bert 4.42.4 5.0.0 ROC_BERT_SELF_ATTENTION_CLASSES
transformers.models.roformer.modeling_roformer 4.30.2 4.52.4 ROFORMER_INPUTS_DOCSTRING
transformers.models.roformer.modeling_roformer 4.30.2 4.52.4 ROFORMER_START_DOCSTRING
transformers.models.rt_detr.modeling_rt_detr 4.42.4 4.52.4 RTDETR_INPUTS_DOCSTRING
transformers.models.rt_detr.modeling_rt_detr 4.42.4 4.52.4 RTDETR_START_DOCSTRING
transformers.models.rt_detr.modeling_rt_detr_resnet 4.42.4 4.52.4 RTDETR_RESNET_INPUTS_DOCSTRING
transformers.models.rt_detr.modeling_rt_detr_resnet 4.42.4 4.52.4 RTDETR_RESNET_START_DOCSTRING
transformers.models.rt_detr_v2.modeling_rt_detr_v2 4.49.0 4.52.4 RTDetrV2_INPUTS_DOCSTRING
transformers.models.rt_detr_v2.modeling_rt_detr_v2 4.49.0 4.52.4 RTDetrV2_START_DOCSTRING
transformers.models.rwkv.modeling_rwkv 4.30.2 4.52.4 RWKV_INPUTS_DOCSTRING RWKV_START_DOCSTRING
transformers.models.sam.modeling_sam 4.30.2 4.52.4 SAM_INPUTS_DOCSTRING SAM_START_DOCSTRING
transformers.models.sam.modeling_sam 4.51.3 4.52.4 SAM_VISION_INPUTS_DOCSTRING
transformers.models.sam.modeling_sam 4.48.3 4.54.1 SAM_ATTENTION_CLASSES SamSdpaAttention
transformers.models.seamless_m4t.modeling_seamless_m4t 4.38.2 4.52.4 HIFIGAN_START_DOCSTRING
transformers.models.seamless_m4t.modeling_seamless_m4t 4.38.2 4.52.4 M4T_MODEL_INPUTS_DOCSTRING
transformers.models.seamless_m4t.modeling_seamless_m4t 4.38.2 4.52.4 M4T_SPEECH_INPUTS_DOCSTRING
transformers.models.seamless_m4t.modeling_seamless_m4t 4.38.2 4.52.4 M4T_TEXT_INPUTS_DOCSTRING
transformers.models.seamless_m4t.modeling_seamless_m4t 4.38.2 4.52.4 SEAMLESS_M4T_START_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 HIFIGAN_START_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 M4T_MODEL_INPUTS_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 M4T_SPEECH_INPUTS_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 M4T_TEXT_INPUTS_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 M4T_TEXT_TO_UNITS_INPUTS_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 SEAMLESS_M4T_V2_END_INPUTS_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 SEAMLESS_M4T_V2_MULTIMODAL_INPUTS_DOCSTRING
transformers.models.seamless_m4t_v2.modeling_seamless_m4t_v2 4.38.2 4.52.4 SEAMLESS_M4T_V2_START_DOCSTRING
transformers.models.segformer.modeling_segformer 4.30.2 4.52.4 SEGFORMER_INPUTS_DOCSTRING
transformers.models.segformer.modeling_segformer 4.30.2 4.52.4 SEGFORMER_START_DOCSTRING
transformers.models.seggpt.modeling_seggpt 4.40.2 4.52.4 SEGGPT_INPUTS_DOCSTRING
transformers.models.seggpt.modeling_seggpt 4.40.2 4.52.4 SEGGPT_START_DOCSTRING
transformers.models.sew.modeling_sew 4.30.2 4.52.4 SEW_INPUTS_DOCSTRING SEW_START_DOCSTRING
transformers.models.sew.modeling_sew 4.42.4 4.53.3 SEWFlashAttention2 SEWSdpaAttention
transformers.models.sew.modeling_sew 4.42.4 4.53.3 SEW_ATTENTION_CLASSES
transformers.models.sew_d.modeling_sew_d 4.30.2 4.52.4 SEWD_INPUTS_DOCSTRING SEWD_START_DOCSTRING
transformers.models.shieldgemma2.modeling_shieldgemma2 4.50.3 4.52.4 SHIELDGEMMA2_INPUTS_DOCSTRING
transformers.models.siglip.modeling_siglip 4.44.2 4.51.3 SIGLIP_ATTENTION_CLASSES
transformers.models.siglip.modeling_siglip 4.44.2 4.51.3 SiglipFlashAttention2 SiglipSdpaAttention
transformers.models.siglip.modeling_siglip 4.38.2 4.52.4 SIGLIP_INPUTS_DOCSTRING
transformers.models.siglip.modeling_siglip 4.38.2 4.52.4 SIGLIP_START_DOCSTRING
transformers.models.siglip.modeling_siglip 4.38.2 4.52.4 SIGLIP_TEXT_INPUTS_DOCSTRING
transformers.models.siglip.modeling_siglip 4.38.2 4.52.4 SIGLIP_VISION_INPUTS_DOCSTRING
transformers.models.siglip2.modeling_siglip2 4.50.3 4.52.4 SIGLIP2_INPUTS_DOCSTRING
transformers.models.siglip2.modeling_siglip2 4.50.3 4.52.4 SIGLIP2_START_DOCSTRING
transformers.models.siglip2.modeling_siglip2 4.50.3 4.52.4 SIGLIP2_TEXT_INPUTS_DOCSTRING
transformers.models.siglip2.modeling_siglip2 4.50.3 4.52.4 SIGLIP2_VISION_INPUTS_DOCSTRING
transformers.models.smolvlm.modeling_smolvlm 4.50.3 4.52.4 SMOLVLM_INPUTS_DOCSTRING
transformers.models.smolvlm.modeling_smolvlm 4.50.3 4.52.4 SMOLVLM_START_DOCSTRING
transformers.models.smolvlm.modeling_smolvlm 4.50.3 4.52.4 SMOLVLM_VISION_START_DOCSTRING
transformers.models.speech_encoder_decoder.modeling_speech_encoder_decoder 4.30.2 4.52.4 SPEECH_ENCODER_DECODER_INPUTS_DOCSTRING
transformers.models.speech_encoder_decoder.modeling_speech_encoder_decoder 4.30.2 4.52.4 SPEECH_ENCODER_DECODER_START_DOCSTRING
transformers.models.speech_to_text.modeling_speech_to_text 4.30.2 4.52.4 SPEECH_TO_TEXT_INPUTS_DOCSTRING
transformers.models.speech_to_text.modeling_speech_to_text 4.30.2 4.52.4 SPEECH_TO_TEXT_START_DOCSTRING
transformers.models.speech_to_text.modeling_speech_to_text 4.38.2 4.53.3 SPEECH_TO_TEXT_ATTENTION_CLASSES
transformers.models.speecht5.modeling_speecht5 4.30.2 4.52.4 HIFIGAN_START_DOCSTRING
transformers.models.speecht5.modeling_speecht5 4.30.2 4.52.4 SPEECHT5_BASE_START_DOCSTRING
transformers.models.speecht5.modeling_speecht5 4.30.2 4.52.4 SPEECHT5_INPUTS_DOCSTRING
transformers.models.speecht5.modeling_speecht5 4.30.2 4.52.4 SPEECHT5_START_DOCSTRING
transformers.models.splinter.modeling_splinter 4.30.2 4.52.4 SPLINTER_INPUTS_DOCSTRING
transformers.models.splinter.modeling_splinter 4.30.2 4.52.4 SPLINTER_START_DOCSTRING
transformers.models.splinter.modeling_splinter 4.42.4 4.54.1 SPLINTER_SELF_ATTENTION_CLASSES
transformers.models.squeezebert.modeling_squeezebert 4.30.2 4.52.4 SQUEEZEBERT_INPUTS_DOCSTRING
transformers.models.squeezebert.modeling_squeezebert 4.30.2 4.52.4 SQUEEZEBERT_START_DOCSTRING
transformers.models.stablelm.modeling_stablelm 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.stablelm.modeling_stablelm 4.38.2 4.52.4 STABLELM_INPUTS_DOCSTRING
transformers.models.stablelm.modeling_stablelm 4.38.2 4.52.4 STABLELM_START_DOCSTRING
transformers.models.stablelm.modeling_stablelm 4.38.2 5.0.0 ATTENTION_CLASSES
transformers.models.stablelm.modeling_stablelm 4.38.2 5.0.0 StableLmFlashAttention2
transformers.models.stablelm.modeling_stablelm 4.40.2 5.0.0 StableLmSdpaAttention
transformers.models.starcoder2.modeling_starcoder2 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.starcoder2.modeling_starcoder2 4.40.2 4.48.3 STARCODER2_ATTENTION_CLASSES
transformers.models.starcoder2.modeling_starcoder2 4.40.2 4.48.3 Starcoder2FlashAttention2
transformers.models.starcoder2.modeling_starcoder2 4.40.2 4.48.3 Starcoder2SdpaAttention
transformers.models.starcoder2.modeling_starcoder2 4.40.2 4.52.4 STARCODER2_INPUTS_DOCSTRING
transformers.models.starcoder2.modeling_starcoder2 4.40.2 4.52.4 STARCODER2_START_DOCSTRING
transformers.models.superglue.modeling_superglue 4.49.0 4.52.4 SUPERGLUE_INPUTS_DOCSTRING
transformers.models.superglue.modeling_superglue 4.49.0 4.52.4 SUPERGLUE_START_DOCSTRING
transformers.models.superpoint.modeling_superpoint 4.40.2 4.52.4 SUPERPOINT_INPUTS_DOCSTRING
transformers.models.superpoint.modeling_superpoint 4.40.2 4.52.4 SUPERPOINT_START_DOCSTRING
transformers.models.swiftformer.modeling_swiftformer 4.30.2 4.52.4 SWIFTFORMER_INPUTS_DOCSTRING
transformers.models.swiftformer.modeling_swiftformer 4.30.2 4.52.4 SWIFTFORMER_START_DOCSTRING
transformers.models.swin.modeling_swin 4.30.2 4.52.4 SWIN_INPUTS_DOCSTRING SWIN_START_DOCSTRING
transformers.models.swin2sr.modeling_swin2sr 4.30.2 4.52.4 SWIN2SR_INPUTS_DOCSTRING
transformers.models.swin2sr.modeling_swin2sr 4.30.2 4.52.4 SWIN2SR_START_DOCSTRING
transformers.models.swinv2.modeling_swinv2 4.30.2 4.52.4 SWINV2_INPUTS_DOCSTRING
transformers.models.swinv2.modeling_swinv2 4.30.2 4.52.4 SWINV2_START_DOCSTRING
transformers.models.switch_transformers.modeling_switch_transformers 4.30.2 4.52.4 SWITCH_TRANSFORMERS_ENCODER_INPUTS_DOCSTRING
transformers.models.switch_transformers.modeling_switch_transformers 4.30.2 4.52.4 SWITCH_TRANSFORMERS_INPUTS_DOCSTRING
transformers.models.switch_transformers.modeling_switch_transformers 4.30.2 4.52.4 SWITCH_TRANSFORMERS_START_DOCSTRING
transformers.models.t5.modeling_t5 4.30.2 4.52.4 T5_ENCODER_INPUTS_DOCSTRING T5_INPUTS_DOCSTRING
transformers.models.t5.modeling_t5 4.30.2 4.52.4 T5_START_DOCSTRING
transformers.models.table_transformer.modeling_table_transformer 4.30.2 4.52.4 TABLE_TRANSFORMER_INPUTS_DOCSTRING
transformers.models.table_transformer.modeling_table_transformer 4.30.2 4.52.4 TABLE_TRANSFORMER_START_DOCSTRING
transformers.models.tapas.modeling_tapas 4.30.2 4.52.4 TAPAS_INPUTS_DOCSTRING
transformers.models.tapas.modeling_tapas 4.30.2 4.52.4 TAPAS_START_DOCSTRING
transformers.models.textnet.modeling_textnet 4.48.3 4.52.4 TEXTNET_INPUTS_DOCSTRING
transformers.models.textnet.modeling_textnet 4.48.3 4.52.4 TEXTNET_START_DOCSTRING
transformers.models.time_series_transformer.modeling_time_series_transformer 4.30.2 4.52.4 TIME_SERIES_TRANSFORMER_INPUTS_DOCSTRING
transformers.models.time_series_transformer.modeling_time_series_transformer 4.30.2 4.52.4 TIME_SERIES_TRANSFORMER_START_DOCSTRING
transformers.models.time_series_transformer.modeling_time_series_transformer 4.38.2 4.53.3 TIME_SERIES_TRANSFORMER_ATTENTION_CLASSES
transformers.models.timesformer.modeling_timesformer 4.30.2 4.52.4 TIMESFORMER_INPUTS_DOCSTRING
transformers.models.timesformer.modeling_timesformer 4.30.2 4.52.4 TIMESFORMER_START_DOCSTRING
transformers.models.timm_wrapper.modeling_timm_wrapper 4.48.3 4.52.4 TIMM_WRAPPER_INPUTS_DOCSTRING
transformers.models.trocr.modeling_trocr 4.30.2 4.52.4 TROCR_START_DOCSTRING
transformers.models.tvp.modeling_tvp 4.38.2 4.52.4 TVP_INPUTS_DOCSTRING TVP_START_DOCSTRING
transformers.models.udop.modeling_udop 4.40.2 4.52.4 UDOP_ENCODER_INPUTS_DOCSTRING
transformers.models.udop.modeling_udop 4.40.2 4.52.4 UDOP_INPUTS_DOCSTRING UDOP_START_DOCSTRING
transformers.models.umt5.modeling_umt5 4.38.2 4.52.4 UMT5_ENCODER_INPUTS_DOCSTRING
transformers.models.umt5.modeling_umt5 4.38.2 4.52.4 UMT5_INPUTS_DOCSTRING UMT5_START_DOCSTRING
transformers.models.unispeech.modeling_unispeech 4.30.2 4.52.4 UNISPEECH_INPUTS_DOCSTRING
transformers.models.unispeech.modeling_unispeech 4.30.2 4.52.4 UNISPEECH_START_DOCSTRING
transformers.models.unispeech.modeling_unispeech 4.42.4 4.53.3 UNISPEECH_ATTENTION_CLASSES
transformers.models.unispeech.modeling_unispeech 4.42.4 4.53.3 UniSpeechFlashAttention2
transformers.models.unispeech.modeling_unispeech 4.42.4 4.53.3 UniSpeechSdpaAttention
transformers.models.unispeech_sat.modeling_unispeech_sat 4.42.4 4.51.3 UNISPEECHSAT_ATTENTION_CLASSES
transformers.models.unispeech_sat.modeling_unispeech_sat 4.30.2 4.52.4 UNISPEECH_SAT_INPUTS_DOCSTRING
transformers.models.unispeech_sat.modeling_unispeech_sat 4.30.2 4.52.4 UNISPEECH_SAT_START_DOCSTRING
transformers.models.unispeech_sat.modeling_unispeech_sat 4.42.4 4.53.3 UniSpeechSatFlashAttention2
transformers.models.unispeech_sat.modeling_unispeech_sat 4.42.4 4.53.3 UniSpeechSatSdpaAttention
transformers.models.unispeech_sat.modeling_unispeech_sat 4.51.3 4.53.3 UNISPEECH_SAT_ATTENTION_CLASSES
transformers.models.univnet.modeling_univnet 4.38.2 4.52.4 UNIVNET_INPUTS_DOCSTRING
transformers.models.univnet.modeling_univnet 4.38.2 4.52.4 UNIVNET_START_DOCSTRING
transformers.models.upernet.modeling_upernet 4.30.2 4.52.4 UPERNET_INPUTS_DOCSTRING
transformers.models.upernet.modeling_upernet 4.30.2 4.52.4 UPERNET_START_DOCSTRING
transformers.models.video_llava.modeling_video_llava 4.42.4 4.52.4 VIDEO_LLAVA_INPUTS_DOCSTRING
transformers.models.video_llava.modeling_video_llava 4.42.4 4.52.4 VIDEO_LLAVA_START_DOCSTRING
transformers.models.videomae.modeling_videomae 4.42.4 4.50.3 VIDEOMAE_ATTENTION_CLASSES
transformers.models.videomae.modeling_videomae 4.42.4 4.50.3 VideoMAESdpaAttention
transformers.models.videomae.modeling_videomae 4.42.4 4.50.3 VideoMAESdpaSelfAttention
transformers.models.videomae.modeling_videomae 4.30.2 4.52.4 VIDEOMAE_INPUTS_DOCSTRING
transformers.models.videomae.modeling_videomae 4.30.2 4.52.4 VIDEOMAE_START_DOCSTRING
transformers.models.vilt.modeling_vilt 4.30.2 4.52.4 VILT_IMAGES_AND_TEXT_CLASSIFICATION_INPUTS_DOCSTRING
transformers.models.vilt.modeling_vilt 4.30.2 4.52.4 VILT_INPUTS_DOCSTRING VILT_START_DOCSTRING
transformers.models.vipllava.modeling_vipllava 4.38.2 4.52.4 VIPLLAVA_INPUTS_DOCSTRING
transformers.models.vipllava.modeling_vipllava 4.38.2 4.52.4 VIPLLAVA_START_DOCSTRING
transformers.models.vision_encoder_decoder.modeling_vision_encoder_decoder 4.30.2 4.52.4 VISION_ENCODER_DECODER_INPUTS_DOCSTRING
transformers.models.vision_encoder_decoder.modeling_vision_encoder_decoder 4.30.2 4.52.4 VISION_ENCODER_DECODER_START_DOCSTRING
transformers.models.vision_text_dual_encoder.modeling_vision_text_dual_encoder 4.30.2 4.52.4 VISION_TEXT_DUAL_ENCODER_INPUTS_DOCSTRING
transformers.models.vision_text_dual_encoder.modeling_vision_text_dual_encoder 4.30.2 4.52.4 VISION_TEXT_DUAL_ENCODER_START_DOCSTRING
transformers.models.vision_text_dual_encoder.modeling_vision_text_dual_encoder 4.30.2 4.52.4 VISION_TEXT_DUAL_ENCODER_TEXT_INPUTS_DOCSTRING
transformers.models.vision_text_dual_encoder.modeling_vision_text_dual_encoder 4.30.2 4.52.4 VISION_TEXT_DUAL_ENCODER_VISION_INPUTS_DOCSTRING
transformers.models.visual_bert.modeling_visual_bert 4.30.2 4.52.4 VISUAL_BERT_INPUTS_DOCSTRING
transformers.models.visual_bert.modeling_visual_bert 4.30.2 4.52.4 VISUAL_BERT_START_DOCSTRING
transformers.models.vit.modeling_vit 4.42.4 4.50.3 VIT_ATTENTION_CLASSES ViTSdpaAttention
transformers.models.vit.modeling_vit 4.42.4 4.50.3 ViTSdpaSelfAttention
transformers.models.vit.modeling_vit 4.30.2 4.52.4 VIT_INPUTS_DOCSTRING VIT_START_DOCSTRING
transformers.models.vit_mae.modeling_vit_mae 4.42.4 4.50.3 VITMAE_ATTENTION_CLASSES
transformers.models.vit_mae.modeling_vit_mae 4.42.4 4.50.3 ViTMAESdpaAttention
transformers.models.vit_mae.modeling_vit_mae 4.42.4 4.50.3 ViTMAESdpaSelfAttention
transformers.models.vit_mae.modeling_vit_mae 4.30.2 4.52.4 VIT_MAE_INPUTS_DOCSTRING
transformers.models.vit_mae.modeling_vit_mae 4.30.2 4.52.4 VIT_MAE_START_DOCSTRING
transformers.models.vit_msn.modeling_vit_msn 4.42.4 4.50.3 VITMSN_ATTENTION_CLASSES
transformers.models.vit_msn.modeling_vit_msn 4.42.4 4.50.3 ViTMSNSdpaAttention
transformers.models.vit_msn.modeling_vit_msn 4.42.4 4.50.3 ViTMSNSdpaSelfAttention
transformers.models.vit_msn.modeling_vit_msn 4.30.2 4.52.4 VIT_MSN_INPUTS_DOCSTRING
transformers.models.vit_msn.modeling_vit_msn 4.30.2 4.52.4 VIT_MSN_START_DOCSTRING
transformers.models.vitdet.modeling_vitdet 4.38.2 4.52.4 VITDET_INPUTS_DOCSTRING
transformers.models.vitdet.modeling_vitdet 4.38.2 4.52.4 VITDET_START_DOCSTRING
transformers.models.vitmatte.modeling_vitmatte 4.38.2 4.52.4 VITMATTE_INPUTS_DOCSTRING
transformers.models.vitmatte.modeling_vitmatte 4.38.2 4.52.4 VITMATTE_START_DOCSTRING
transformers.models.vitpose.modeling_vitpose 4.48.3 4.52.4 VITPOSE_INPUTS_DOCSTRING
transformers.models.vitpose.modeling_vitpose 4.48.3 4.52.4 VITPOSE_START_DOCSTRING
transformers.models.vitpose_backbone.modeling_vitpose_backbone 4.48.3 4.52.4 VITPOSE_BACKBONE_INPUTS_DOCSTRING
transformers.models.vitpose_backbone.modeling_vitpose_backbone 4.48.3 4.52.4 VITPOSE_BACKBONE_START_DOCSTRING
transformers.models.vits.modeling_vits 4.38.2 4.52.4 VITS_INPUTS_DOCSTRING VITS_START_DOCSTRING
transformers.models.vivit.modeling_vivit 4.38.2 4.52.4 VIVIT_INPUTS_DOCSTRING
transformers.models.vivit.modeling_vivit 4.38.2 4.52.4 VIVIT_START_DOCSTRING
transformers.models.wav2vec2.modeling_wav2vec2 4.30.2 4.51.3 WAV_2_VEC_2_INPUTS_DOCSTRING
transformers.models.wav2vec2.modeling_wav2vec2 4.30.2 4.51.3 WAV_2_VEC_2_START_DOCSTRING
transformers.models.wav2vec2.modeling_wav2vec2 4.51.3 4.52.4 WAV2VEC2_INPUTS_DOCSTRING
transformers.models.wav2vec2.modeling_wav2vec2 4.51.3 4.52.4 WAV2VEC2_START_DOCSTRING
transformers.models.wav2vec2.modeling_wav2vec2 4.42.4 4.53.3 WAV2VEC2_ATTENTION_CLASSES
transformers.models.wav2vec2.modeling_wav2vec2 4.42.4 4.53.3 Wav2Vec2FlashAttention2
transformers.models.wav2vec2.modeling_wav2vec2 4.42.4 4.53.3 Wav2Vec2SdpaAttention
transformers.models.wav2vec2_bert.modeling_wav2vec2_bert 4.38.2 4.52.4 WAV2VEC2_BERT_INPUTS_DOCSTRING
transformers.models.wav2vec2_bert.modeling_wav2vec2_bert 4.38.2 4.52.4 WAV2VEC2_BERT_START_DOCSTRING
transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer 4.30.2 4.52.4 WAV2VEC2_CONFORMER_INPUTS_DOCSTRING
transformers.models.wav2vec2_conformer.modeling_wav2vec2_conformer 4.30.2 4.52.4 WAV2VEC2_CONFORMER_START_DOCSTRING
transformers.models.wavlm.modeling_wavlm 4.30.2 4.52.4 WAVLM_INPUTS_DOCSTRING
transformers.models.wavlm.modeling_wavlm 4.30.2 4.52.4 WAVLM_START_DOCSTRING
transformers.models.whisper.modeling_whisper 4.44.2 4.46.3 _prepare_4d_causal_attention_mask_with_cache_position
transformers.models.whisper.modeling_whisper 4.30.2 4.52.4 WHISPER_ENCODER_INPUTS_DOCSTRING
transformers.models.whisper.modeling_whisper 4.30.2 4.52.4 WHISPER_INPUTS_DOCSTRING
transformers.models.whisper.modeling_whisper 4.30.2 4.52.4 WHISPER_START_DOCSTRING
transformers.models.whisper.modeling_whisper 4.38.2 4.53.3 WHISPER_ATTENTION_CLASSES
transformers.models.whisper.modeling_whisper 4.38.2 4.53.3 WhisperFlashAttention2
transformers.models.whisper.modeling_whisper 4.38.2 4.53.3 WhisperSdpaAttention
transformers.models.x_clip.modeling_x_clip 4.30.2 4.52.4 X_CLIP_INPUTS_DOCSTRING
transformers.models.x_clip.modeling_x_clip 4.30.2 4.52.4 X_CLIP_START_DOCSTRING
transformers.models.x_clip.modeling_x_clip 4.30.2 4.52.4 X_CLIP_TEXT_INPUTS_DOCSTRING
transformers.models.x_clip.modeling_x_clip 4.30.2 4.52.4 X_CLIP_VISION_INPUTS_DOCSTRING
transformers.models.xglm.modeling_xglm 4.30.2 4.52.4 XGLM_INPUTS_DOCSTRING XGLM_START_DOCSTRING
transformers.models.xlm.modeling_xlm 4.30.2 4.52.4 XLM_INPUTS_DOCSTRING XLM_START_DOCSTRING
transformers.models.xlm_roberta.modeling_xlm_roberta 4.30.2 4.52.4 XLM_ROBERTA_INPUTS_DOCSTRING
transformers.models.xlm_roberta.modeling_xlm_roberta 4.30.2 4.52.4 XLM_ROBERTA_START_DOCSTRING
transformers.models.xlm_roberta.modeling_xlm_roberta 4.42.4 5.0.0 XLM_ROBERTA_SELF_ATTENTION_CLASSES
transformers.models.xlm_roberta.modeling_xlm_roberta 4.45.2 5.0.0 XLMRobertaSdpaSelfAttention
transformers.models.xlm_roberta_xl.modeling_xlm_roberta_xl 4.30.2 4.52.4 XLM_ROBERTA_XL_INPUTS_DOCSTRING
transformers.models.xlm_roberta_xl.modeling_xlm_roberta_xl 4.30.2 4.52.4 XLM_ROBERTA_XL_START_DOCSTRING
transformers.models.xlm_roberta_xl.modeling_xlm_roberta_xl 4.45.2 5.0.0 XLMROBERTAXL_SELF_ATTENTION_CLASSES
transformers.models.xlm_roberta_xl.modeling_xlm_roberta_xl 4.45.2 5.0.0 XLMRobertaXLSdpaSelfAttention
transformers.models.xlnet.modeling_xlnet 4.30.2 4.52.4 XLNET_INPUTS_DOCSTRING
transformers.models.xlnet.modeling_xlnet 4.30.2 4.52.4 XLNET_START_DOCSTRING
transformers.models.xmod.modeling_xmod 4.30.2 4.52.4 XMOD_INPUTS_DOCSTRING XMOD_START_DOCSTRING
transformers.models.yolos.modeling_yolos 4.42.4 4.50.3 YOLOS_ATTENTION_CLASSES YolosSdpaAttention
transformers.models.yolos.modeling_yolos 4.42.4 4.50.3 YolosSdpaSelfAttention
transformers.models.yolos.modeling_yolos 4.30.2 4.52.4 YOLOS_INPUTS_DOCSTRING
transformers.models.yolos.modeling_yolos 4.30.2 4.52.4 YOLOS_START_DOCSTRING
transformers.models.yoso.modeling_yoso 4.30.2 4.52.4 YOSO_INPUTS_DOCSTRING YOSO_START_DOCSTRING
transformers.models.zamba.modeling_zamba 4.46.3 4.52.4 ZAMBA_INPUTS_DOCSTRING
transformers.models.zamba.modeling_zamba 4.46.3 4.52.4 ZAMBA_START_DOCSTRING
transformers.models.zamba2.modeling_zamba2 4.49.0 4.52.4 ZAMBA2_INPUTS_DOCSTRING
transformers.models.zamba2.modeling_zamba2 4.49.0 4.52.4 ZAMBA2_START_DOCSTRING
transformers.models.zoedepth.modeling_zoedepth 4.44.2 4.52.4 ZOEDEPTH_INPUTS_DOCSTRING
transformers.models.zoedepth.modeling_zoedepth 4.44.2 4.52.4 ZOEDEPTH_START_DOCSTRING
transformers.processing_utils 4.44.2 4.47.1 CHAT_TEMPLATE_NAME
transformers.processing_utils 4.38.2 4.53.3 add_model_info_to_auto_map
transformers.processing_utils 4.42.4 4.53.3 add_model_info_to_custom_pipelines
transformers.processing_utils 4.45.2 4.54.1 _validate_images_text_input_order
transformers.processing_utils 4.45.2 4.54.1 is_valid_image=transformers.image_utils
transformers.processing_utils 4.49.0 4.56.2 load_image=transformers.image_utils
transformers.processing_utils 4.49.0 4.56.2 load_video=transformers.video_utils
transformers.processing_utils 4.30.2 5.0.0 AUTO_TO_BASE_CLASS_MAPPING
transformers.processing_utils 4.38.2 5.0.0 download_url is_remote_url
transformers.processing_utils 4.42.4 5.0.0 CommonKwargs
transformers.processing_utils 4.53.3 5.0.0 VideoMetadata=transformers.video_utils
transformers.processing_utils 4.53.3 5.0.0 deprecate_kwarg=transformers.utils.deprecation
transformers.processing_utils 4.51.3 5.1.0 ChatTemplateLoadKwargs
transformers.pytorch_utils 4.38.2 4.40.2 is_torch_tpu_available
transformers.pytorch_utils 4.30.2 4.50.3 parsed_torch_version_base
transformers.pytorch_utils 4.30.2 5.0.0 find_pruneable_heads_and_indices prune_conv1d_layer
transformers.pytorch_utils 4.30.2 5.0.0 prune_layer
transformers.pytorch_utils 4.56.2 5.0.0 infer_device=transformers.utils.kernel_config
transformers.pytorch_utils 4.56.2 5.0.0 is_torch_xpu_available=transformers.utils.import_utils
transformers.pytorch_utils 4.45.2 5.1.0 isin_mps_friendly
transformers.pytorch_utils 4.47.1 5.15.1 _torch_distributed_available
transformers.quantizers.auto 4.46.3 4.52.4 BitNetConfig
transformers.tokenization_utils_base 4.38.2 4.42.4 Conversation
transformers.tokenization_utils_base 4.42.4 4.52.4 get_json_schema=transformers.utils.chat_template_utils
transformers.tokenization_utils_base 4.45.2 4.52.4 _compile_jinja_template
transformers.tokenization_utils_base 4.45.2 4.52.4 _render_with_assistant_indices
transformers.tokenization_utils_base 4.30.2 4.53.3 add_model_info_to_auto_map
transformers.tokenization_utils_base 4.42.4 4.53.3 add_model_info_to_custom_pipelines
transformers.tokenization_utils_base 4.30.2 5.0.0 SpecialTokensMixin download_url
transformers.tokenization_utils_base 4.30.2 5.0.0 is_flax_available is_jax_tensor is_remote_url
transformers.tokenization_utils_base 4.30.2 5.0.0 is_tf_available is_tf_tensor
transformers.tokenization_utils_base 4.45.2 5.6.2 PROTOBUF_IMPORT_ERROR
transformers.tokenization_utils_base 5.0.0 5.15.1 recursive_parse
transformers.tokenization_utils_base 4.30.2 5.18.0 extract_commit_hash=transformers.utils.hub
transformers.trainer_pt_utils 4.30.2 4.40.2 is_torch_tpu_available
transformers.trainer_pt_utils 4.40.2 4.48.3 is_torch_greater_or_equal_than_2_0
transformers.trainer_pt_utils 4.30.2 5.0.0 DistributedTensorGatherer SequentialDistributedSampler
transformers.trainer_pt_utils 4.30.2 5.2.0 _get_learning_rate
transformers.trainer_pt_utils 4.30.2 5.16.1 BatchEncoding=transformers.tokenization_utils_base
transformers.utils 4.38.2 4.40.2 is_flash_attn_available=transformers.modeling_flash_attention_utils
transformers.utils 4.40.2 4.47.1 is_quanto_available
transformers.utils 4.30.2 4.48.3 is_soundfile_availble
transformers.utils 4.30.2 4.49.0 get_cached_models move_cache
transformers.utils 4.30.2 4.50.3 get_file_from_repo
transformers.utils 4.44.2 4.52.4 CHAT_TEMPLATE_NAME
transformers.utils 4.30.2 4.53.3 add_model_info_to_auto_map
transformers.utils 4.42.4 4.53.3 add_model_info_to_custom_pipelines
transformers.utils 4.47.1 4.54.1 LossKwargs
transformers.utils 4.30.2 4.57.6 cached_property is_jieba_available send_example_telemetry
transformers.utils 4.30.2 5.0.0 FLAX_WEIGHTS_INDEX_NAME FLAX_WEIGHTS_NAME HUGGINGFACE_CO_PREFIX
transformers.utils 4.30.2 5.0.0 HUGGINGFACE_CO_RESOLVE_ENDPOINT PYTORCH_PRETRAINED_BERT_CACHE
transformers.utils 4.30.2 5.0.0 PYTORCH_TRANSFORMERS_CACHE TORCH_FX_REQUIRED_VERSION
transformers.utils 4.30.2 5.0.0 TRANSFORMERS_CACHE USE_JAX USE_TF USE_TORCH ccl_version
transformers.utils 4.30.2 5.0.0 default_cache_path download_url infer_framework is_flax_available
transformers.utils 4.30.2 5.0.0 is_jax_tensor is_keras_nlp_available is_offline_mode is_remote_url
transformers.utils 4.30.2 5.0.0 is_safetensors_available is_tensorflow_probability_available
transformers.utils 4.30.2 5.0.0 is_tensorflow_text_available is_tf2onnx_available is_tf_available
transformers.utils 4.30.2 5.0.0 is_tf_symbolic_tensor is_tf_tensor is_torch_bf16_available
transformers.utils 4.30.2 5.0.0 is_torch_bf16_cpu_available is_torch_compile_available
transformers.utils 4.30.2 5.0.0 is_torch_fx_available is_torchdynamo_available working_or_temp_dir
transformers.utils 4.38.2 5.0.0 is_auto_awq_available is_auto_gptq_available
transformers.utils 4.38.2 5.0.0 is_torch_sdpa_available
transformers.utils 4.42.4 5.0.0 is_eetq_available
transformers.utils 4.45.2 5.0.0 is_bitsandbytes_multi_backend_available
transformers.utils 4.30.2 5.1.0 is_ftfy_available is_ipex_available
transformers.utils 4.38.2 5.1.0 BackboneConfigMixin BackboneMixin
transformers.utils 4.52.4 5.1.0 is_ccl_available
transformers.utils 5.0.0 5.15.1 is_jmespath_available
transformers.utils.backbone_utils 4.42.4 5.0.0 PretrainedConfig
transformers.utils.backbone_utils 4.30.2 5.1.0 BackboneType=transformers.backbone_utils
transformers.utils.backbone_utils 4.30.2 5.1.0 _align_output_features_output_indices
transformers.utils.backbone_utils 4.30.2 5.1.0 get_aligned_output_features_output_indices
transformers.utils.backbone_utils 4.30.2 5.1.0 verify_out_features_out_indices
transformers.utils.backbone_utils 4.38.2 5.1.0 load_backbone=transformers.backbone_utils
transformers.utils.backbone_utils 4.42.4 5.1.0 verify_backbone_config_arguments
transformers.utils.backbone_utils 5.0.0 5.1.0 PreTrainedConfig=transformers.configuration_utils
transformers.utils.doc 4.30.2 5.0.0 FLAX_BASE_MODEL_SAMPLE FLAX_CAUSAL_LM_SAMPLE
transformers.utils.doc 4.30.2 5.0.0 FLAX_MASKED_LM_SAMPLE FLAX_MULTIPLE_CHOICE_SAMPLE
transformers.utils.doc 4.30.2 5.0.0 FLAX_QUESTION_ANSWERING_SAMPLE FLAX_SAMPLE_DOCSTRINGS
transformers.utils.doc 4.30.2 5.0.0 FLAX_SEQUENCE_CLASSIFICATION_SAMPLE
transformers.utils.doc 4.30.2 5.0.0 FLAX_TOKEN_CLASSIFICATION_SAMPLE
transformers.utils.doc 4.52.4 5.0.0 IMAGE_TO_TEXT_SAMPLE TEXT2TEXT_GENERATION_SAMPLE
transformers.utils.generic 4.30.2 4.53.3 add_model_info_to_auto_map
transformers.utils.generic 4.42.4 4.53.3 add_model_info_to_custom_pipelines
transformers.utils.generic 4.47.1 4.54.1 LossKwargs
transformers.utils.generic 4.38.2 4.56.2 get_torch_version=transformers.utils.import_utils
transformers.utils.generic 4.30.2 4.57.6 cached_property
transformers.utils.generic 4.30.2 5.0.0 _is_jax _is_numpy _is_tensorflow _is_tf_symbolic_tensor
transformers.utils.generic 4.30.2 5.0.0 _is_torch _is_torch_device _is_torch_dtype infer_framework
transformers.utils.generic 4.30.2 5.0.0 is_flax_available is_jax_tensor is_tf_available
transformers.utils.generic 4.30.2 5.0.0 is_tf_symbolic_tensor is_tf_tensor working_or_temp_dir
transformers.utils.generic 4.54.1 5.2.0 OutputRecorder=transformers.utils.output_capturing
transformers.utils.generic 4.54.1 5.2.0 _CAN_RECORD_REGISTRY
transformers.utils.generic 4.54.1 5.2.0 requires=transformers.utils.import_utils
transformers.utils.generic 4.55.4 5.5.4 model_addition_debugger_context
transformers.utils.hub 4.30.2 4.49.0 cache_is_not_empty cache_version_file clean_files_for
transformers.utils.hub 4.30.2 4.49.0 extract_info_from_url get_all_cached_files get_cached_models
transformers.utils.hub 4.30.2 4.49.0 move_cache move_to_new_cache old_default_cache_path
transformers.utils.hub 4.30.2 4.52.4 get_file_from_repo
transformers.utils.hub 4.30.2 4.57.6 send_example_telemetry
transformers.utils.hub 4.30.2 5.0.0 HUGGINGFACE_CO_EXAMPLES_TELEMETRY HUGGINGFACE_CO_PREFIX
transformers.utils.hub 4.30.2 5.0.0 HUGGINGFACE_CO_RESOLVE_ENDPOINT PYTORCH_PRETRAINED_BERT_CACHE
transformers.utils.hub 4.30.2 5.0.0 PYTORCH_TRANSFORMERS_CACHE TRANSFORMERS_CACHE
transformers.utils.hub 4.30.2 5.0.0 _default_endpoint _is_offline_mode _staging_mode _tf_version
transformers.utils.hub 4.30.2 5.0.0 _torch_version default_cache_path download_url is_remote_url
transformers.utils.hub 4.30.2 5.0.0 is_tf_available torch_cache_home working_or_temp_dir
transformers.utils.import_utils 4.38.2 4.40.2 is_flash_attn_available=transformers.modeling_flash_attention_utils
transformers.utils.import_utils 4.40.2 4.47.1 is_quanto_available
transformers.utils.import_utils 4.30.2 4.48.3 is_soundfile_availble
transformers.utils.import_utils 4.40.2 4.50.3 _quanto_available
transformers.utils.import_utils 4.30.2 4.52.4 _torch_fx_available
transformers.utils.import_utils 4.45.2 4.52.4 export
transformers.utils.import_utils 4.30.2 4.57.6 JIEBA_IMPORT_ERROR _jieba_available
transformers.utils.import_utils 4.30.2 4.57.6 is_jieba_available
transformers.utils.import_utils 4.30.2 5.0.0 FLAX_IMPORT_ERROR FORCE_TF_AVAILABLE
transformers.utils.import_utils 4.30.2 5.0.0 PYTORCH_IMPORT_ERROR_WITH_TF TENSORFLOW_IMPORT_ERROR
transformers.utils.import_utils 4.30.2 5.0.0 TENSORFLOW_PROBABILITY_IMPORT_ERROR
transformers.utils.import_utils 4.30.2 5.0.0 TENSORFLOW_TEXT_IMPORT_ERROR
transformers.utils.import_utils 4.30.2 5.0.0 TORCH_FX_REQUIRED_VERSION USE_JAX USE_TF USE_TORCH
transformers.utils.import_utils 4.30.2 5.0.0 _apex_available _bitsandbytes_available
transformers.utils.import_utils 4.30.2 5.0.0 _bs4_available _coloredlogs_available
transformers.utils.import_utils 4.30.2 5.0.0 _datasets_available _decord_available
transformers.utils.import_utils 4.30.2 5.0.0 _detectron2_available _faiss_available
transformers.utils.import_utils 4.30.2 5.0.0 _flax_available _ftfy_available _is_ccl_available
transformers.utils.import_utils 4.30.2 5.0.0 _kenlm_available _keras_nlp_available
transformers.utils.import_utils 4.30.2 5.0.0 _librosa_available _natten_available _onnx_available
transformers.utils.import_utils 4.30.2 5.0.0 _openai_available _optimum_available
transformers.utils.import_utils 4.30.2 5.0.0 _pandas_available _peft_available
transformers.utils.import_utils 4.30.2 5.0.0 _phonemizer_available _psutil_available
transformers.utils.import_utils 4.30.2 5.0.0 _py3nvml_available _pyctcdecode_available
transformers.utils.import_utils 4.30.2 5.0.0 _pytesseract_available
transformers.utils.import_utils 4.30.2 5.0.0 _pytorch_quantization_available _rjieba_available
transformers.utils.import_utils 4.30.2 5.0.0 _sacremoses_available _safetensors_available
transformers.utils.import_utils 4.30.2 5.0.0 _scipy_available _sentencepiece_available
transformers.utils.import_utils 4.30.2 5.0.0 _sklearn_available _smdistributed_available
transformers.utils.import_utils 4.30.2 5.0.0 _soundfile_available _spacy_available
transformers.utils.import_utils 4.30.2 5.0.0 _tensorflow_probability_available
transformers.utils.import_utils 4.30.2 5.0.0 _tensorflow_text_available _tf2onnx_available
transformers.utils.import_utils 4.30.2 5.0.0 _tf_available _tf_version _timm_available
transformers.utils.import_utils 4.30.2 5.0.0 _tokenizers_available _torch_available _torch_version
transformers.utils.import_utils 4.30.2 5.0.0 _torchaudio_available _torchdistx_available
transformers.utils.import_utils 4.30.2 5.0.0 _torchvision_available ccl_version is_flax_available
transformers.utils.import_utils 4.30.2 5.0.0 is_keras_nlp_available is_safetensors_available
transformers.utils.import_utils 4.30.2 5.0.0 is_tensorflow_probability_available
transformers.utils.import_utils 4.30.2 5.0.0 is_tensorflow_text_available is_tf2onnx_available
transformers.utils.import_utils 4.30.2 5.0.0 is_tf_available is_torch_bf16_available
transformers.utils.import_utils 4.30.2 5.0.0 is_torch_bf16_cpu_available
transformers.utils.import_utils 4.30.2 5.0.0 is_torch_compile_available is_torch_fx_available
transformers.utils.import_utils 4.30.2 5.0.0 is_torchdynamo_available
transformers.utils.import_utils 4.38.2 5.0.0 _aqlm_available _auto_awq_available
transformers.utils.import_utils 4.38.2 5.0.0 _auto_gptq_available _cv2_available
transformers.utils.import_utils 4.38.2 5.0.0 _essentia_available _g2p_en_available
transformers.utils.import_utils 4.38.2 5.0.0 _is_seqio_available _jinja_available
transformers.utils.import_utils 4.38.2 5.0.0 _levenshtein_available _nltk_available
transformers.utils.import_utils 4.38.2 5.0.0 _pretty_midi_available _pytest_available
transformers.utils.import_utils 4.38.2 5.0.0 get_sudachi_version is_auto_awq_available
transformers.utils.import_utils 4.38.2 5.0.0 is_auto_gptq_available is_torch_sdpa_available
transformers.utils.import_utils 4.40.2 5.0.0 _av_available _galore_torch_available _mlx_available
transformers.utils.import_utils 4.40.2 5.0.0 _torch_xla_available
transformers.utils.import_utils 4.42.4 5.0.0 _eetq_available _hqq_available _is_gguf_available
transformers.utils.import_utils 4.42.4 5.0.0 _lomo_available _pygments_available is_eetq_available
transformers.utils.import_utils 4.44.2 5.0.0 _fbgemm_gpu_available
transformers.utils.import_utils 4.45.2 5.0.0 _blobfile_available _compressed_tensors_available
transformers.utils.import_utils 4.45.2 5.0.0 _grokadamw_available _liger_kernel_available
transformers.utils.import_utils 4.45.2 5.0.0 _tiktoken_available _uroman_available
transformers.utils.import_utils 4.45.2 5.0.0 is_bitsandbytes_multi_backend_available
transformers.utils.import_utils 4.46.3 5.0.0 _is_optimum_quanto_available
transformers.utils.import_utils 4.48.3 5.0.0 _hadamard_available _triton_available
transformers.utils.import_utils 4.49.0 5.0.0 _apollo_torch_available _gptqmodel_available
transformers.utils.import_utils 4.49.0 5.0.0 _spqr_available _yt_dlp_available
transformers.utils.import_utils 4.50.3 5.0.0 _num2words_available _quark_available _rich_available
transformers.utils.import_utils 4.52.4 5.0.0 KERAS_NLP_IMPORT_ERROR _kernels_available
transformers.utils.import_utils 4.53.3 5.0.0 _matplotlib_available _torchcodec_available
transformers.utils.import_utils 4.54.1 5.0.0 _fastapi_available _mistral_common_available
transformers.utils.import_utils 4.54.1 5.0.0 _pydantic_available _torch_optimi_available
transformers.utils.import_utils 4.54.1 5.0.0 _uvicorn_available
transformers.utils.import_utils 4.55.4 5.0.0 _libcst_available
transformers.utils.import_utils 4.30.2 5.1.0 CCL_IMPORT_ERROR FTFY_IMPORT_ERROR is_ccl_available
transformers.utils.import_utils 4.30.2 5.1.0 is_ftfy_available is_ipex_available
transformers.utils.import_utils 5.0.0 5.9.0 is_opentelemetry_available
transformers.utils.import_utils 5.0.0 5.15.1 is_jmespath_available
transformers.utils.import_utils 5.0.0 5.23.0 PACKAGE_DISTRIBUTION_MAPPING
transformers.utils.quantization_config 4.46.3 4.52.4 BitNetConfig
transformers.utils.quantization_config 4.38.2 5.0.0 AWQLinearVersion AwqBackendPackingMethod
transformers.utils.quantization_config 4.38.2 5.0.0 is_auto_awq_available
transformers.utils.quantization_config 4.49.0 5.0.0 is_auto_gptq_available
transformers.utils.quantization_config 4.49.0 5.0.0 is_gptqmodel_available=transformers.utils.import_utils
"""
